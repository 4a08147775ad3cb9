import { ProtocolError } from './errors.js';

/** ZooKeeper's default jute.maxbuffer: what one frame may hold. */
export const MAX_FRAME_LENGTH = 0xfffff;

/** Cuts a byte stream into frames. A chunk that holds whole frames is cut without a copy. */
export class FrameSplitter {
  #chunks: Buffer[] = [];
  #offset = 0;
  #available = 0;

  constructor(private readonly maxLength = MAX_FRAME_LENGTH) {}

  push(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#available += chunk.length;
  }

  /** The next four bytes without consuming them. */
  peek(): Buffer | undefined {
    if (this.#available < 4) return undefined;
    this.#join(4);
    return this.#chunks[0].subarray(this.#offset, this.#offset + 4);
  }

  /** The next whole frame without its length, a view of the received bytes. */
  next(): Buffer | undefined {
    if (this.#available < 4) return undefined;
    this.#join(4);
    const length = this.#chunks[0].readInt32BE(this.#offset);
    if (length < 0 || length > this.maxLength) {
      throw new ProtocolError(`a frame of length ${length}, at most ${this.maxLength} is allowed`);
    }
    if (this.#available < 4 + length) return undefined;
    this.#join(4 + length);
    const start = this.#offset + 4;
    this.#offset = start + length;
    this.#available -= 4 + length;
    const frame = this.#chunks[0].subarray(start, this.#offset);
    if (this.#offset === this.#chunks[0].length) {
      this.#chunks.shift();
      this.#offset = 0;
    }
    return frame;
  }

  /** The next bytes in one chunk. Joined only when a frame that is there as a whole spans chunks: once a frame. */
  #join(length: number): void {
    if (this.#chunks[0].length - this.#offset >= length) return;
    this.#chunks[0] = this.#chunks[0].subarray(this.#offset);
    this.#offset = 0;
    this.#chunks = [Buffer.concat(this.#chunks)];
  }
}
