import type { Reader } from '../protocol/index.js';
import type { Stat } from './types.js';

// What a server answers, read straight into what the client hands out.

export function readNothing(): void {}

export function readPath(from: Reader): string {
  return from.text();
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
    ephemeralOwner: hexadecimal(from.bigint()),
    dataLength: from.int(),
    numChildren: from.int(),
    pzxid: from.long(),
  };
}

export function readContent(from: Reader): { data: Buffer; stat: Stat } {
  // A copy: the answer is a view of all that came with it, and would keep that in memory.
  const data = Buffer.from(from.bytes() ?? []);
  return { data, stat: readStat(from) };
}

export function readListing(from: Reader): { children: string[]; stat: Stat } {
  const children = from.vector(readPath);
  return { children, stat: readStat(from) };
}

/** A session's id, as `Stat.ephemeralOwner` has it. */
export function hexadecimal(id: bigint): string {
  return id === 0n ? '0' : BigInt.asUintN(64, id).toString(16);
}
