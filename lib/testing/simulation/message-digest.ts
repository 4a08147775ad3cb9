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

/** Returns the frames of a packet, each with its length before it. */
export function splitFrames(packet: Buffer): Buffer[] {
  const frames: Buffer[] = [];
  let start = 0;
  while (start < packet.length) {
    const end = start + 4 + packet.readInt32BE(start);
    frames.push(packet.subarray(start, end));
    start = end;
  }
  return frames;
}

/** Adds the xid, the type and the path of the request in a frame. */
export function addRequest(digest: Digest, frame: Buffer): void {
  digest.addBytes(frame, 4, endOfPath(frame));
}

/** Adds the xid, the transaction id and the error code of each reply in a packet, and the whole of a watch event. */
export function addReplies(digest: Digest, packet: Buffer): void {
  for (const frame of splitFrames(packet)) digest.addBytes(frame, 4, endOfHeader(frame));
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

  /** Returns whether the frame is something else than a keep-alive. */
  addRequest(frame: Buffer): boolean {
    const xid = intAt(frame, 4);
    if (xid === Xid.ping) return false;
    // The client sends them while it is idle, to notice that its own server has lost the others.
    if (requestType(frame) === OpCode.sync) {
      this.#keepAlives.add(xid);
      return false;
    }
    this.digest.addNumber(this.client);
    this.digest.addBytes(frame, 8, endOfPath(frame));
    return true;
  }

  /** Returns whether the packet has other messages than keep-alives. */
  addReplies(packet: Buffer): boolean {
    const frames = splitFrames(packet).filter((frame) => !this.#keepAlives.has(intAt(frame, 4)));
    for (const frame of frames) {
      this.digest.addNumber(this.client);
      this.digest.addBytes(frame, 8, endOfHeader(frame));
    }
    return frames.length > 0;
  }
}

/** Returns the type of the request in a frame. That of a handshake is no type of a request. */
export function requestType(frame: Buffer): number {
  return intAt(frame, 8);
}

/** Of a multi request, the path is that of its first operation. */
function endOfPath(frame: Buffer): number {
  const path = 12 + (requestType(frame) === OpCode.multi ? MULTI_HEADER : 0);
  return Math.min(frame.length, path + 4 + Math.max(intAt(frame, path), 0));
}

function endOfHeader(frame: Buffer): number {
  const isEvent = intAt(frame, 4) === Xid.watchEvent;
  return isEvent ? frame.length : Math.min(frame.length, 8 + REPLY_HEADER_REST);
}

function intAt(frame: Buffer, index: number): number {
  return index + 4 <= frame.length ? frame.readInt32BE(index) : 0;
}
