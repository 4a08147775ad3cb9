import { hostname } from 'node:os';
import { BadOptionError } from '../../client/errors.js';
import type { HolderDetails } from '../types.js';

/** Bytes. Each request to acquire a lock contains the data. */
const MOST_BYTES = 4096;

const HERE = { host: hostname(), pid: process.pid };
const plain = new Map<number | undefined, Uint8Array>();

/** Returns the data of a znode of this library. Curator writes the address of the host. */
export function holderData(details: HolderDetails | undefined, permits?: number): Uint8Array {
  if (details !== undefined) return encode(details, permits, 'details');
  // Without details the data is the same for all callers.
  let data = plain.get(permits);
  if (!data) plain.set(permits, (data = encode({}, permits, 'details')));
  return data;
}

/** @param option the name of the details in errors */
export function checkDetails(
  details: unknown,
  option: string,
): asserts details is HolderDetails | undefined {
  if (details !== undefined) encode(details, undefined, option);
}

function encode(details: unknown, permits: number | undefined, option: string): Uint8Array {
  if (typeof details !== 'object' || details === null) {
    throw new BadOptionError(option, details, 'an object of name, text and data');
  }
  const { name, text, data } = details as Record<string, unknown>;
  for (const [field, value] of Object.entries({ name, text })) {
    if (value !== undefined && typeof value !== 'string') {
      throw new BadOptionError(`${option}.${field}`, value, 'a string');
    }
  }
  const bytes = Buffer.from(json({ ...HERE, name, text, data, permits }, data, option));
  if (bytes.length > MOST_BYTES) {
    throw new BadOptionError(option, details, `at most ${MOST_BYTES} bytes of JSON`);
  }
  return bytes;
}

/** Returns JSON. It cannot express a BigInt or a cycle. */
function json(value: object, data: unknown, option: string): string {
  try {
    return JSON.stringify(value);
  } catch (cause) {
    throw new BadOptionError(`${option}.data`, data, 'a value that JSON can express', { cause });
  }
}
