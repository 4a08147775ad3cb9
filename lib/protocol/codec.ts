import { ProtocolError, type Reader, type Writer } from './jute.js';

/** Reads and writes one type of value. */
export interface Codec<T> {
  read(from: Reader): T;
  write(value: T, to: Writer): void;
}

export type ValueOf<C> = C extends Codec<infer T> ? T : never;

export const int: Codec<number> = {
  read: (from) => from.int(),
  write: (value, to) => to.int(value),
};

export const long: Codec<number> = {
  read: (from) => from.long(),
  write: (value, to) => to.long(value),
};

export const bigint: Codec<bigint> = {
  read: (from) => from.bigint(),
  write: (value, to) => to.bigint(value),
};

export const bool: Codec<boolean> = {
  read: (from) => from.bool(),
  write: (value, to) => to.bool(value),
};

export const text: Codec<string> = {
  read: (from) => from.text(),
  write: (value, to) => to.text(value),
};

export const textOrNull: Codec<string | null> = {
  read: (from) => from.textOrNull(),
  write: (value, to) => (value === null ? to.int(-1) : to.text(value)),
};

/** A string that a server reads as the empty one if it is null. */
export const textOrEmpty: Codec<string> = {
  read: (from) => from.textOrNull() ?? '',
  write: text.write,
};

export const bytes: Codec<Uint8Array | null> = {
  read: (from) => from.bytes(),
  write: (value, to) => to.bytes(value),
};

export function vector<T>(item: Codec<T>): Codec<readonly T[]> {
  return {
    read: (from) => from.vector(item.read),
    write: (value, to) => to.vector(value, item.write),
  };
}

/** A vector that must not be null. Otherwise null is read as an empty vector. */
export function requiredVector<T>(item: Codec<T>): Codec<readonly T[]> {
  const { read, write } = vector(item);
  return {
    read(from) {
      if (from.fork().int() === -1) throw new ProtocolError('a null vector');
      return read(from);
    },
    write,
  };
}

/** A record: its fields one after the other, in the order in which they are declared. */
export function record<F extends Record<string, Codec<unknown>>>(
  fields: F,
): Codec<{ [K in keyof F]: ValueOf<F[K]> }> {
  const names = Object.keys(fields);
  const codecs = Object.values(fields);
  return {
    read(from) {
      const value: Record<string, unknown> = {};
      for (let i = 0; i < names.length; i++) value[names[i]] = codecs[i].read(from);
      return value as { [K in keyof F]: ValueOf<F[K]> };
    },
    write(value, to) {
      for (let i = 0; i < names.length; i++) codecs[i].write(value[names[i]], to);
    },
  };
}
