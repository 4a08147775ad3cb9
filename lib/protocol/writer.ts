const UINT32 = 0x1_0000_0000;
const INITIAL_SIZE = 512;
const EMPTY = Buffer.alloc(0);

/** Writes frames one behind the other into one growing buffer, so that many leave in one system call. */
export class Writer {
  #buffer: Buffer = EMPTY;
  #length = 0;

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

  /** Length prefix and what `body` writes. */
  frame(body: (to: Writer) => void): void {
    const at = this.#reserve(4);
    body(this);
    this.#buffer.writeInt32BE(this.#length - at - 4, at);
  }

  /** Hands over everything written so far; the next write starts a new buffer. */
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
