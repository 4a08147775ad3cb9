import { ProtocolError } from './jute.js';

/** Bytes that one frame may have: the default of ZooKeeper's `jute.maxbuffer`. */
export const MAX_FRAME_LENGTH = 0xfffff;

/** Cuts a stream of bytes into frames. Frames that arrive in one chunk are views of it, not copies. */
export class FrameSplitter {
  #chunks: Buffer[] = [];
  #offset = 0;
  #available = 0;

  constructor(private readonly maxLength = MAX_FRAME_LENGTH) {}

  push(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#available += chunk.length;
  }

  /** Returns the next four bytes without consuming them. */
  peek(): Buffer | undefined {
    if (this.#available < 4) return undefined;
    const first = this.#first(4);
    return first.subarray(this.#offset, this.#offset + 4);
  }

  /**
   * Returns the next complete frame without its length.
   *
   * @throws ProtocolError for a length below 0 or above the maximum
   */
  next(): Buffer | undefined {
    if (this.#available < 4) return undefined;
    const length = this.#first(4).readInt32BE(this.#offset);
    if (length < 0 || length > this.maxLength) {
      throw new ProtocolError(`a frame of length ${length}, at most ${this.maxLength} is allowed`);
    }
    if (this.#available < 4 + length) return undefined;
    const chunk = this.#first(4 + length);
    const start = this.#offset + 4;
    this.#offset = start + length;
    this.#available -= 4 + length;
    const frame = chunk.subarray(start, this.#offset);
    if (this.#offset === chunk.length) {
      this.#chunks.shift();
      this.#offset = 0;
    }
    return frame;
  }

  /** Returns the first chunk, after joining it with the others if it has fewer unread bytes: at most twice per frame. */
  #first(length: number): Buffer {
    const first = this.#chunks[0];
    if (first.length - this.#offset >= length) return first;
    this.#chunks[0] = first.subarray(this.#offset);
    this.#offset = 0;
    this.#chunks = [Buffer.concat(this.#chunks)];
    return this.#chunks[0];
  }
}
