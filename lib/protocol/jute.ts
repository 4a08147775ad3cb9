const UINT32 = 0x1_0000_0000;
const INITIAL_SIZE = 512;
const EMPTY = Buffer.alloc(0);

/** Bytes that violate ZooKeeper's protocol. */
export class ProtocolError extends Error {
  override readonly name = 'ProtocolError';
}

/**
 * Reads the fields of one frame in Jute, ZooKeeper's serialization format.
 *
 * @throws ProtocolError from each method if the frame ends before the field does
 */
export class Reader {
  #offset = 0;

  /** @param nullText what text() returns for a null string; without it, text() throws */
  constructor(
    readonly frame: Buffer,
    private readonly nullText?: string,
  ) {}

  /** Returns another reader of the same frame at the same position. */
  fork(nullText?: string): Reader {
    const other = new Reader(this.frame, nullText);
    other.#offset = this.#offset;
    return other;
  }

  /** Unread bytes. */
  get remaining(): number {
    return this.frame.length - this.#offset;
  }

  int(): number {
    return this.frame.readInt32BE(this.#take(4));
  }

  /** A 64-bit integer as a number: exact below 2^53, as zxids, times and TTLs are. */
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
    if (length === -1 && this.nullText !== undefined) return this.nullText;
    if (length < 0) throw new ProtocolError(`a string of length ${length}`);
    const at = this.#take(length);
    return this.frame.toString('utf8', at, at + length);
  }

  /** Null is a string of length -1, as clients in Java and C write it, and kazoo for the empty string. */
  textOrNull(): string | null {
    const start = this.#offset;
    if (this.int() === -1) return null;
    this.#offset = start;
    return this.text();
  }

  /** A view of the frame, not a copy; null if its length is -1. */
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
    // Nothing is allocated for the count, which may be wrong: the end of the frame stops the loop.
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

/** Writes frames in Jute one after the other into one buffer, so that many leave in one system call. */
export class Writer {
  #buffer: Buffer = EMPTY;
  #length = 0;

  /** Bytes written since the last take(). */
  get length(): number {
    return this.#length;
  }

  int(value: number): void {
    const at = this.#reserve(4);
    this.#buffer.writeInt32BE(value, at);
  }

  /** A 64-bit integer from a number that is exact, see {@link Reader.long}. */
  long(value: number): void {
    const at = this.#reserve(8);
    this.#buffer.writeInt32BE(Math.floor(value / UINT32), at);
    this.#buffer.writeUInt32BE(value >>> 0, at + 4);
  }

  bigint(value: bigint): void {
    const at = this.#reserve(8);
    this.#buffer.writeBigInt64BE(value, at);
  }

  bool(value: boolean): void {
    const at = this.#reserve(1);
    this.#buffer[at] = value ? 1 : 0;
  }

  text(value: string): void {
    const length = Buffer.byteLength(value);
    const at = this.#reserve(4 + length);
    this.#buffer.writeInt32BE(length, at);
    this.#buffer.write(value, at + 4, 'utf8');
  }

  /** Null travels as length -1, so it differs from an empty buffer. */
  bytes(value: Uint8Array | null): void {
    if (value === null) return this.int(-1);
    const at = this.#reserve(4 + value.length);
    this.#buffer.writeInt32BE(value.length, at);
    this.#buffer.set(value, at + 4);
  }

  vector<T>(items: readonly T[], write: (item: T, to: Writer) => void): void {
    this.int(items.length);
    for (const item of items) write(item, this);
  }

  /** Writes a frame: its length, then what `body` writes. */
  frame(body: (to: Writer) => void): void {
    const at = this.beginFrame();
    body(this);
    this.endFrame(at);
  }

  /** Begins a frame. Returns what {@link endFrame} needs, which ends it. */
  beginFrame(): number {
    return this.#reserve(4);
  }

  endFrame(at: number): void {
    this.#buffer.writeInt32BE(this.#length - at - 4, at);
  }

  /** Returns everything written since the last take(); the next write starts a new buffer. */
  take(): Buffer {
    const written = this.#buffer.subarray(0, this.#length);
    this.#buffer = EMPTY;
    this.#length = 0;
    return written;
  }

  #reserve(length: number): number {
    const at = this.#length;
    const needed = at + length;
    if (needed > this.#buffer.length) {
      const grown = Buffer.allocUnsafe(Math.max(INITIAL_SIZE, needed, this.#buffer.length * 2));
      this.#buffer.copy(grown, 0, 0, at);
      this.#buffer = grown;
    }
    this.#length = needed;
    return at;
  }
}
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
