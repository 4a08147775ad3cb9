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

/** Adds the xid, the type and the path of each request in a packet. */
export function addRequests(digest: Digest, packet: Buffer): void {
  forEachFrame(packet, (start, end) =>
    digest.addBytes(packet, start, endOfPath(packet, start, end)),
  );
}

/** Adds the xid, the transaction id and the error code of each reply in a packet, and the whole of a watch event. */
export function addReplies(digest: Digest, packet: Buffer): void {
  forEachFrame(packet, (start, end) =>
    digest.addBytes(packet, start, endOfHeader(packet, start, end)),
  );
}

/**
 * Adds what the messages of one connection say about the behaviour of its client: requests and replies without their
 * xids, and without those by which an idle client keeps its session alive.
 */
export class ConnectionDigest {
  /** The xids of requests that are left out. */
  readonly #keepAlives = new Set<number>([Xid.ping]);

  constructor(
    private readonly digest: Digest,
    private readonly client: number,
  ) {}

  /** Returns whether the packet has other messages than keep-alives. */
  addRequests(packet: Buffer): boolean {
    let added = false;
    forEachFrame(packet, (start, end) => {
      const xid = intAt(packet, start, end);
      if (xid === Xid.ping) return;
      // The client sends them while it is idle, to notice that its own server has lost the others.
      if (intAt(packet, start + 4, end) === OpCode.sync) return void this.#keepAlives.add(xid);
      added = true;
      this.digest.addNumber(this.client);
      this.digest.addBytes(packet, start + 4, endOfPath(packet, start, end));
    });
    return added;
  }

  /** Returns whether the packet has other messages than keep-alives. */
  addReplies(packet: Buffer): boolean {
    let added = false;
    forEachFrame(packet, (start, end) => {
      if (this.#keepAlives.has(intAt(packet, start, end))) return;
      added = true;
      this.digest.addNumber(this.client);
      this.digest.addBytes(packet, start + 4, endOfHeader(packet, start, end));
    });
    return added;
  }
}

/** Returns the types of the requests in a packet, keep-alives excluded. A handshake has none of the types of requests. */
export function requestTypes(packet: Buffer): number[] {
  const types: number[] = [];
  forEachFrame(packet, (start, end) => {
    if (intAt(packet, start, end) !== Xid.ping) types.push(intAt(packet, start + 4, end));
  });
  return types;
}

/** Of a multi request, the path is that of its first operation. */
function endOfPath(packet: Buffer, start: number, end: number): number {
  const path = start + 8 + (intAt(packet, start + 4, end) === OpCode.multi ? MULTI_HEADER : 0);
  return Math.min(end, path + 4 + Math.max(intAt(packet, path, end), 0));
}

function endOfHeader(packet: Buffer, start: number, end: number): number {
  const isEvent = intAt(packet, start, end) === Xid.watchEvent;
  return isEvent ? end : Math.min(end, start + 4 + REPLY_HEADER_REST);
}

function intAt(packet: Buffer, start: number, end: number): number {
  return start + 4 <= end ? packet.readInt32BE(start) : 0;
}

function forEachFrame(packet: Buffer, visit: (start: number, end: number) => void): void {
  for (let start = 4; start <= packet.length;) {
    const end = Math.min(start + packet.readInt32BE(start - 4), packet.length);
    visit(start, end);
    start = end + 4;
  }
}
