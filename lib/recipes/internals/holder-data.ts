import { hostname } from 'node:os';
import { BadOptionError } from '../../client/errors.js';
import type { HolderDetails } from '../types.js';

/** Bytes. It travels with each acquire. */
const LONGEST = 4096;

const HERE = { host: hostname(), pid: process.pid };
const plain = new Map<number | undefined, Uint8Array>();

/** The data of a node of ours. Curator puts the host's address there. */
export function holderData(details: HolderDetails | undefined, permits?: number): Uint8Array {
  return details === undefined ? plainData(permits) : encode(details, permits, 'details');
}

/** Without details it is the same again and again: made once for each number of permits. */
function plainData(permits: number | undefined): Uint8Array {
  let data = plain.get(permits);
  if (!data) plain.set(permits, (data = encode({}, permits, 'details')));
  return data;
}

/** @param option what errors call the details */
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
  if (bytes.length > LONGEST) {
    throw new BadOptionError(option, details, `at most ${LONGEST} bytes of JSON`);
  }
  return bytes;
}

/** JSON cannot say a BigInt or a cycle. */
function json(value: object, data: unknown, option: string): string {
  try {
    return JSON.stringify(value);
  } catch (cause) {
    throw new BadOptionError(`${option}.data`, data, 'something that JSON can say', { cause });
  }
}
