import crypto from 'node:crypto';
import { types } from 'node:util';
import type { SimulatedProcess } from './process.js';
import { VirtualTimer } from './process-time.js';
import { EventRandom, type Random } from './random.js';

/** The greatest number of bytes that `crypto.getRandomValues` fills. */
const MAX_RANDOM_VALUES = 65_536;

/** The range of `crypto.randomInt` is less than this. */
const MAX_RANDOM_INT = 2 ** 48;

type Callback = (...args: unknown[]) => unknown;

/**
 * Returns the replacements of the sources of random numbers. They pass invalid arguments to Node's functions, which
 * throw the errors.
 *
 * @param eventNumber returns the number of the event that is running
 * @param current returns the process whose code is running
 */
export function randomFunctions(
  random: Random,
  eventNumber: () => number,
  current: () => SimulatedProcess,
) {
  // Each function has a source of its own. A library may keep a pool of random bytes from an earlier simulation, so it
  // draws fewer bytes in this one, which must not change the numbers of other functions.
  const source = () => new EventRandom(random.next() * 2 ** 32, eventNumber);
  const [floats, bytes, uuids, integers] = [source(), source(), source(), source()];
  const real = { ...crypto };
  const fill = (array: NodeJS.ArrayBufferView, offset?: number, size?: number) => {
    const isBuffer = ArrayBuffer.isView(array) || types.isAnyArrayBuffer(array);
    if (!isBuffer || !isInside(array, offset, size)) {
      return real.randomFillSync(array, offset!, size!);
    }
    return fillRandom(bytes, array, offset, size);
  };
  const callInNextTurn = (callback: Callback, ...args: unknown[]) =>
    void new VirtualTimer(current().timerOwner, callback, args, undefined, false);
  const nodeCrypto = {
    randomUUID: () => randomUuid(uuids),
    randomBytes: (size: number, callback?: Callback) => {
      const filled = fillRandom(bytes, Buffer.alloc(size));
      return callback ? callInNextTurn(callback, null, filled) : filled;
    },
    randomFill: (array: NodeJS.ArrayBufferView, ...rest: (number | Callback)[]) => {
      const [offset, size] = rest.filter((each) => typeof each === 'number');
      const callback = rest.at(-1);
      if (typeof callback !== 'function') return real.randomFill(array, callback as never);
      callInNextTurn(callback, null, fill(array, offset, size));
    },
    randomFillSync: fill,
    randomInt: (low: number, high?: number | Callback, callback?: Callback) => {
      const [from, to] = typeof high === 'number' ? [low, high] : [0, low];
      const done = typeof high === 'function' ? high : callback;
      const isValid = Number.isSafeInteger(from) && Number.isSafeInteger(to) && from < to;
      if (!isValid || to - from >= MAX_RANDOM_INT) return real.randomInt(from, to);
      const number = integers.whole(from, to - 1);
      return done ? callInNextTurn(done, null, number) : number;
    },
  };
  const getRandomValues = globalThis.crypto.getRandomValues.bind(globalThis.crypto);
  const webCrypto = {
    randomUUID: nodeCrypto.randomUUID,
    getRandomValues: (array: NodeJS.ArrayBufferView) => {
      const isValid = isIntegerArray(array) && array.byteLength <= MAX_RANDOM_VALUES;
      return isValid ? fillRandom(bytes, array) : getRandomValues(array as never);
    },
  };
  return { next: () => floats.next(), nodeCrypto, webCrypto };
}

function isIntegerArray(array: unknown): array is NodeJS.ArrayBufferView {
  const isFloat = array instanceof Float32Array || array instanceof Float64Array;
  return types.isTypedArray(array) && !isFloat;
}

/** Returns whether the elements from `offset` on are elements of an array. */
function isInside(array: NodeJS.ArrayBufferView, offset = 0, size = 0): boolean {
  const { byteLength } = array;
  return offset >= 0 && size >= 0 && (offset + size) * elementSize(array) <= byteLength;
}

function elementSize(array: object): number {
  return 'BYTES_PER_ELEMENT' in array ? Number(array.BYTES_PER_ELEMENT) : 1;
}

/**
 * Fills an array or an `ArrayBuffer` with random bytes.
 *
 * @param offset the index of the first element to fill
 * @param size the number of elements to fill. Default: all elements from `offset` on
 */
function fillRandom<T extends NodeJS.ArrayBufferView>(
  random: Random,
  array: T,
  offset = 0,
  size?: number,
): T {
  const width = elementSize(array);
  const length = size === undefined ? array.byteLength - offset * width : size * width;
  const [buffer, start] = ArrayBuffer.isView(array) ? [array.buffer, array.byteOffset] : [array, 0];
  const bytes = new Uint8Array(buffer as ArrayBuffer, start + offset * width, length);
  for (let index = 0; index < bytes.length; index++) bytes[index] = random.whole(0, 255);
  return array;
}

function randomUuid(random: Random): string {
  const bytes = fillRandom(random, Buffer.alloc(16));
  bytes[6] = (bytes[6]! & 0x0f) | 0x40;
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  const hex = bytes.toString('hex');
  const groups = [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20)];
  return [...groups, hex.slice(20)].join('-');
}
