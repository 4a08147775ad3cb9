import { ProtocolError } from './jute.js';

/** Bytes that one frame may have: the default of ZooKeeper's `jute.maxbuffer`. */
export const MAX_FRAME_LENGTH = 0xfffff;

/** Cuts a stream of bytes into frames. Frames that arrive in one chunk are views of it, not copies. */
export class FrameSplitter {
  /** The unread bytes are those between `#start` and `#end`. */
  #bytes: Buffer = Buffer.alloc(0);
  #start = 0;
  #end = 0;

  /** @param maxLength bytes; may change between two frames */
  constructor(public maxLength = MAX_FRAME_LENGTH) {}

  push(chunk: Buffer): void {
    const unread = this.#end - this.#start;
    if (unread === 0) {
      this.#bytes = chunk;
      this.#start = 0;
      this.#end = chunk.length;
      return;
    }
    // Copied, because each Buffer needs about 70 bytes more than its data, and a server may send single bytes.
    if (this.#end + chunk.length > this.#bytes.length) {
      const larger = Buffer.allocUnsafe(unread + Math.max(unread, chunk.length));
      this.#bytes.copy(larger, 0, this.#start, this.#end);
      this.#bytes = larger;
      this.#start = 0;
      this.#end = unread;
    }
    this.#end += chunk.copy(this.#bytes, this.#end);
  }

  /** Returns the next bytes without consuming them; undefined if fewer have arrived. */
  peek(length = 4): Buffer | undefined {
    const end = this.#start + length;
    return end > this.#end ? undefined : this.#bytes.subarray(this.#start, end);
  }

  /**
   * Returns the next complete frame without its length.
   *
   * @throws ProtocolError for a length below 0 or above the maximum
   */
  next(): Buffer | undefined {
    const start = this.#start + 4;
    if (start > this.#end) return undefined;
    const length = this.#bytes.readInt32BE(this.#start);
    if (length < 0 || length > this.maxLength) {
      throw new ProtocolError(`a frame of length ${length}, at most ${this.maxLength} is allowed`);
    }
    if (start + length > this.#end) return undefined;
    this.#start = start + length;
    return this.#bytes.subarray(start, this.#start);
  }
}
