import { EventType, type Reader } from '../../protocol/index.js';
import type { Stat } from '../types.js';
import type { NodeEvent } from './transport.js';

export const NODE_EVENTS: Readonly<Record<number, NodeEvent | undefined>> = {
  [EventType.created]: 'created',
  [EventType.deleted]: 'deleted',
  [EventType.dataChanged]: 'changed',
  [EventType.childrenChanged]: 'child',
};

/** The reply of a server to the connect request. */
export interface ConnectResponse {
  /** 0, or another number if a ClickHouse Keeper or RaftKeeper refuses the connection. */
  readonly protocolVersion: number;
  /** The session timeout granted, milliseconds; 0 or less: the server refused the session. */
  readonly timeout: number;
  readonly sessionId: string;
  /** Hexadecimal. */
  readonly password: string;
  readonly readOnly: boolean;
}

export function readConnectResponse(from: Reader): ConnectResponse {
  return {
    protocolVersion: from.int(),
    timeout: from.int(),
    sessionId: readSessionId(from),
    password: Buffer.from(from.bytes() ?? []).toString('hex'),
    readOnly: from.remaining > 0 && from.bool(),
  };
}

export function readStat(from: Reader): Stat {
  return {
    czxid: from.long(),
    mzxid: from.long(),
    ctime: from.long(),
    mtime: from.long(),
    version: from.int(),
    cversion: from.int(),
    aversion: from.int(),
    ephemeralOwner: readSessionId(from),
    dataLength: from.int(),
    numChildren: from.int(),
    pzxid: from.long(),
  };
}

/** Reads a 64-bit session id as hexadecimal digits without leading zeros. */
function readSessionId(from: Reader): string {
  const high = from.int() >>> 0;
  const low = (from.int() >>> 0).toString(16);
  return high === 0 ? low : high.toString(16) + low.padStart(8, '0');
}
