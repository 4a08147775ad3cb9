import { ProtocolError } from './jute.js';

/** Bytes that one frame may have: the default of ZooKeeper's `jute.maxbuffer`. */
export const MAX_FRAME_LENGTH = 0xfffff;

/** Cuts a stream of bytes into frames. Frames that arrive in one chunk are views of it, not copies. */
export class FrameSplitter {
  #chunks: Buffer[] = [];
  #offset = 0;
  #available = 0;

  /** @param maxLength bytes; may change between two frames */
  constructor(public maxLength = MAX_FRAME_LENGTH) {}

  push(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#available += chunk.length;
  }

  /** Returns the next bytes without consuming them; undefined if fewer have arrived. */
  peek(length = 4): Buffer | undefined {
    if (this.#available < length) return undefined;
    if (this.#chunks[0].length - this.#offset < length) this.#join();
    return this.#chunks[0].subarray(this.#offset, this.#offset + length);
  }

  /**
   * Returns the next complete frame without its length.
   *
   * @throws ProtocolError for a length below 0 or above the maximum
   */
  next(): Buffer | undefined {
    if (this.#available < 4) return undefined;
    if (this.#chunks[0].length - this.#offset < 4) this.#join();
    const length = this.#chunks[0].readInt32BE(this.#offset);
    if (length < 0 || length > this.maxLength) {
      throw new ProtocolError(`a frame of length ${length}, at most ${this.maxLength} is allowed`);
    }
    // Joined only when the whole frame has arrived: at most twice per frame, however many chunks it spans.
    if (this.#available < 4 + length) return undefined;
    if (this.#chunks[0].length - this.#offset < 4 + length) this.#join();
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

  /** Makes one chunk of all unread bytes. */
  #join(): void {
    this.#chunks[0] = this.#chunks[0].subarray(this.#offset);
    this.#chunks = [Buffer.concat(this.#chunks)];
    this.#offset = 0;
  }
}
