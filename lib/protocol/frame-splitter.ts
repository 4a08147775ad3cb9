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
    return this.#available < 4 ? undefined : this.#view(4);
  }

  /** The next whole frame without its length, a view of the received bytes. */
  next(): Buffer | undefined {
    if (this.#available < 4) return undefined;
    const length = this.#view(4).readInt32BE(0);
    if (length < 0 || length > this.maxLength) {
      throw new ProtocolError(`a frame of length ${length}, at most ${this.maxLength} is allowed`);
    }
    if (this.#available < 4 + length) return undefined;
    const frame = this.#view(4 + length).subarray(4);
    this.#offset += 4 + length;
    this.#available -= 4 + length;
    if (this.#offset === this.#chunks[0].length) {
      this.#chunks.shift();
      this.#offset = 0;
    }
    return frame;
  }

  // Chunks are joined only when a frame that is there as a whole spans them: once a frame.
  #view(length: number): Buffer {
    if (this.#chunks[0].length - this.#offset < length) {
      this.#chunks[0] = this.#chunks[0].subarray(this.#offset);
      this.#offset = 0;
      this.#chunks = [Buffer.concat(this.#chunks)];
    }
    return this.#chunks[0].subarray(this.#offset, this.#offset + length);
  }
}
