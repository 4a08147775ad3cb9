import { ProtocolError } from './errors.js';

const UINT32 = 0x1_0000_0000;

/** Reads one frame's fields; every length is checked against what the frame still holds. */
export class Reader {
  #offset = 0;

  constructor(readonly frame: Buffer) {}

  /** Returns another reader of the same frame, at the same place. */
  fork(): Reader {
    const other = new Reader(this.frame);
    other.#offset = this.#offset;
    return other;
  }

  get remaining(): number {
    return this.frame.length - this.#offset;
  }

  int(): number {
    return this.frame.readInt32BE(this.#take(4));
  }

  /** A 64-bit integer as a number: exact below 2^53, as zxids, times and lifetimes are. */
  long(): number {
    const at = this.#take(8);
    return this.frame.readInt32BE(at) * UINT32 + this.frame.readUInt32BE(at + 4);
  }

  bigint(): bigint {
    return this.frame.readBigInt64BE(this.#take(8));
  }

  bool(): boolean {
    return this.frame[this.#take(1)] !== 0;
  }

  text(): string {
    const length = this.int();
    if (length < 0) throw new ProtocolError(`a string of length ${length}`);
    const at = this.#take(length);
    return this.frame.toString('utf8', at, at + length);
  }

  /** A view of the frame, not a copy. */
  bytes(): Buffer | null {
    const length = this.int();
    if (length === -1) return null;
    if (length < 0) throw new ProtocolError(`a buffer of length ${length}`);
    const at = this.#take(length);
    return this.frame.subarray(at, at + length);
  }

  vector<T>(read: (from: Reader) => T): T[] {
    const count = this.int();
    const items: T[] = [];
    // The count is the peer's word: nothing is allocated for it, the frame's end stops the loop.
    for (let i = 0; i < count; i++) items.push(read(this));
    return items;
  }

  #take(length: number): number {
    const at = this.#offset;
    if (length > this.frame.length - at) {
      throw new ProtocolError(
        `${length} bytes wanted, ${this.frame.length - at} left in the frame`,
      );
    }
    this.#offset = at + length;
    return at;
  }
}
