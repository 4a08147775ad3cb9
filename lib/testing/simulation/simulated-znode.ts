import type { Znode } from '../../embedded/znode.js';
import { WALL_CLOCK_START } from './process-clocks.js';

/**
 * A committed znode. Servers that lag behind may not have it yet.
 *
 * @publicApi
 */
export interface SimulatedZnode {
  readonly path: string;
  readonly data: Buffer;
  /** The id of the session that owns an ephemeral node, in hexadecimal; undefined for other nodes. */
  readonly session: string | undefined;
  /** The id of the transaction that created the node. */
  readonly czxid: number;
  /** When the node was created, in virtual milliseconds since the simulation started. */
  readonly created: number;
  /** When the data of the node was last changed, in virtual milliseconds since the simulation started. */
  readonly modified: number;
}

/** Returns a snapshot of a znode. Scenarios list many znodes, so the data is copied only when it is read. */
export function snapshot(
  path: string,
  { czxid, ctime, mtime, owner, data }: Znode,
): SimulatedZnode {
  return {
    path,
    czxid,
    created: ctime - WALL_CLOCK_START,
    modified: mtime - WALL_CLOCK_START,
    get data() {
      return Buffer.from(data ?? []);
    },
    get session() {
      return owner === 0n ? undefined : toHex(owner);
    },
  };
}

/** Returns the id of a session in hexadecimal. */
export function toHex(session: bigint): string {
  return BigInt.asUintN(64, session).toString(16);
}
