const encoder = new TextEncoder();
const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

/** The methods of Node's `Buffer` that the library uses. Texts are UTF-8 or hexadecimal. */
export class Buffer extends Uint8Array {
  static override from(source: never, start?: unknown, length?: number): Buffer {
    if (typeof source === 'string') {
      return Buffer.#of(start === 'hex' ? fromHex(source) : encoder.encode(source));
    }
    if ((source as unknown) instanceof ArrayBuffer) {
      return new Buffer(source, start as number, length);
    }
    return new Buffer(source);
  }

  static alloc(size: number): Buffer {
    return new Buffer(size);
  }

  static allocUnsafe(size: number): Buffer {
    return new Buffer(size);
  }

  static byteLength(text: string): number {
    return encoder.encode(text).length;
  }

  static isBuffer(value: unknown): value is Buffer {
    return value instanceof Buffer;
  }

  static concat(list: readonly Uint8Array[]): Buffer {
    const joined = new Buffer(list.reduce((sum, { length }) => sum + length, 0));
    let end = 0;
    for (const part of list) {
      joined.set(part, end);
      end += part.length;
    }
    return joined;
  }

  static compare(a: Uint8Array, b: Uint8Array): number {
    const index = a.findIndex((byte, at) => byte !== b[at]);
    if (index < 0) return Math.sign(a.length - b.length);
    return index >= b.length || a[index]! > b[index]! ? 1 : -1;
  }

  static #of(bytes: Uint8Array): Buffer {
    return new Buffer(bytes.buffer as ArrayBuffer, bytes.byteOffset, bytes.length);
  }

  equals(other: Uint8Array): boolean {
    return Buffer.compare(this, other) === 0;
  }

  copy(target: Uint8Array, at = 0, start = 0, end = this.length): number {
    target.set(this.subarray(start, end), at);
    return end - start;
  }

  write(text: string, offset = 0): number {
    return encoder.encodeInto(text, this.subarray(offset)).written;
  }

  override toString(encoding = 'utf8', start = 0, end = this.length): string {
    const part = this.subarray(start, end);
    if (encoding !== 'hex') return decoder.decode(part);
    return Array.from(part, (byte) => byte.toString(16).padStart(2, '0')).join('');
  }

  readInt32BE(at = 0): number {
    return this.#view.getInt32(at);
  }

  readInt32LE(at = 0): number {
    return this.#view.getInt32(at, true);
  }

  readUInt32BE(at = 0): number {
    return this.#view.getUint32(at);
  }

  readBigInt64BE(at = 0): bigint {
    return this.#view.getBigInt64(at);
  }

  writeInt32BE(value: number, at = 0): void {
    this.#view.setInt32(at, value);
  }

  writeUInt32BE(value: number, at = 0): void {
    this.#view.setUint32(at, value);
  }

  writeUInt32LE(value: number, at = 0): void {
    this.#view.setUint32(at, value, true);
  }

  writeBigInt64BE(value: bigint, at = 0): void {
    this.#view.setBigInt64(at, value);
  }

  get #view(): DataView {
    return new DataView(this.buffer, this.byteOffset, this.byteLength);
  }
}

function fromHex(text: string): Uint8Array {
  return Uint8Array.from(text.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
}
