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
