import { OpCode, Xid } from '../../protocol/index.js';
import type { Digest } from './digest.js';

/*
 * What a digest contains of the messages of ZooKeeper's protocol. The data of znodes is left out, because the library
 * writes the host name and the id of the Node process into it, which differ between runs.
 */

/** The bytes of a transaction id and an error code, which follow the xid in a reply. */
const REPLY_HEADER_REST = 12;

/** The bytes of the header of an operation in a multi request. */
const MULTI_HEADER = 9;

/**
 * Adds the xid, the type and the path of each request in a packet. Of a multi request, the path is that of its first
 * operation.
 *
 * @param client if given, it is added before each request, and keep-alives are left out
 */
export function addRequests(digest: Digest, packet: Buffer, client?: number): void {
  forEachFrame(packet, (start, end) => {
    if (client !== undefined) {
      if (xidAt(packet, start, end) === Xid.ping) return;
      digest.addNumber(client);
    }
    const type = start + 8 <= end ? packet.readInt32BE(start + 4) : 0;
    const path = start + 8 + (type === OpCode.multi ? MULTI_HEADER : 0);
    const length = path + 4 <= end ? Math.max(packet.readInt32BE(path), 0) : 0;
    digest.addBytes(packet, start, Math.min(end, path + 4 + length));
  });
}

/**
 * Adds the xid, the transaction id and the error code of each reply in a packet, and the whole of a watch event.
 *
 * @param client if given, it is added before each reply, and keep-alives are left out
 */
export function addReplies(digest: Digest, packet: Buffer, client?: number): void {
  forEachFrame(packet, (start, end) => {
    const xid = xidAt(packet, start, end);
    if (client !== undefined) {
      if (xid === Xid.ping) return;
      digest.addNumber(client);
    }
    const isEvent = xid === Xid.watchEvent;
    digest.addBytes(packet, start, isEvent ? end : Math.min(end, start + 4 + REPLY_HEADER_REST));
  });
}

/** Returns the types of the requests in a packet, keep-alives and handshakes excluded. */
export function requestTypes(packet: Buffer): number[] {
  const types: number[] = [];
  forEachFrame(packet, (start, end) => {
    const xid = xidAt(packet, start, end);
    if (start + 8 <= end && xid !== Xid.ping) types.push(packet.readInt32BE(start + 4));
  });
  return types;
}

function xidAt(packet: Buffer, start: number, end: number): number | undefined {
  return start + 4 <= end ? packet.readInt32BE(start) : undefined;
}

function forEachFrame(packet: Buffer, visit: (start: number, end: number) => void): void {
  for (let start = 4; start <= packet.length;) {
    const end = Math.min(start + packet.readInt32BE(start - 4), packet.length);
    visit(start, end);
    start = end + 4;
  }
}
