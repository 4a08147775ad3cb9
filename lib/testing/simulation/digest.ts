import { OpCode, Xid } from '../../protocol/index.js';
import { mix } from './random.js';

const doubleBits = new DataView(new ArrayBuffer(8));

/** A 64-bit digest of the events of a run. It is not cryptographic; equal runs have equal digests. */
export class Digest {
  #low = 0x9e3779b9;
  #high = 0x85ebca6b;

  addNumber(value: number): void {
    doubleBits.setFloat64(0, value);
    this.#low = mix(this.#low ^ doubleBits.getUint32(0));
    this.#high = mix((this.#high ^ doubleBits.getUint32(4)) + this.#low);
  }

  addText(value: string): void {
    for (let index = 0; index < value.length; index++) {
      this.#low = Math.imul(this.#low ^ value.charCodeAt(index), 0x01000193);
    }
    this.#high = mix(this.#high ^ this.#low);
  }

  /** @param end the index after the last byte to add */
  addBytes(bytes: Buffer, start: number, end: number): void {
    let low = this.#low;
    let index = start;
    for (; index + 4 <= end; index += 4) {
      low = Math.imul(low ^ bytes.readInt32LE(index), 0x85ebca6b);
      low ^= low >>> 15;
    }
    for (; index < end; index++) low = Math.imul(low ^ bytes[index]!, 0x01000193);
    this.#low = low;
    this.#high = mix(this.#high ^ low);
  }

  /** Returns the digest as sixteen hexadecimal digits. */
  toString(): string {
    const hex = (half: number) => (half >>> 0).toString(16).padStart(8, '0');
    return hex(this.#high) + hex(this.#low);
  }
}

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
