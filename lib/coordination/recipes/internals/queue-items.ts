import { isUint8Array } from 'node:util/types';
import { BadOptionError, checkData } from '../../../client/index.js';
import { RecipeConflictError } from '../../../kernel/index.js';

/*
 * The data of a znode in a queue, in the format of Curator's ItemSerializer; numbers are big-endian:
 *
 *     version 0x00010001 (4 bytes)
 *     for each item: 1 (1 byte), length (4 bytes), the item
 *     2 (1 byte): the end
 *     the id of the put (16 bytes) and the number of failed attempts (4 bytes)
 *
 * Curator writes nothing after the end and ignores what is there. It copies the whole data when it requeues an item.
 */

/** The beginning of the names of items. */
export const ITEM_PREFIX = 'queue-';

const VERSION = 0x00010001;
const ITEM = 1;
const END = 2;
const ID_BYTES = 16;
const TRAILER_BYTES = ID_BYTES + 4;
const NO_ID = Buffer.alloc(ID_BYTES);

/** The content of a znode of a queue. */
interface StoredItems {
  readonly items: readonly Buffer[];
  /** The id of the put; 16 zero bytes if Curator put the items. */
  readonly id: Buffer;
  /** The number of failed attempts to handle the items. */
  readonly attempts: number;
}

/** Returns the data of a znode. */
export function encodeItems({ items, id, attempts }: StoredItems): Buffer {
  const header = Buffer.alloc(4);
  header.writeInt32BE(VERSION);
  const trailer = Buffer.alloc(1 + TRAILER_BYTES);
  trailer.writeUInt8(END);
  id.copy(trailer, 1);
  trailer.writeUInt32BE(attempts, 1 + ID_BYTES);
  const parts = items.flatMap((item) => {
    const head = Buffer.alloc(5);
    head.writeUInt8(ITEM);
    head.writeInt32BE(item.length, 1);
    return [head, item];
  });
  return Buffer.concat([header, ...parts, trailer]);
}

/**
 * Reads the data of a znode.
 *
 * @throws RecipeConflictError if it has another format
 */
export function decodeItems(data: Buffer, path: string): StoredItems {
  const items: Buffer[] = [];
  let at = 4;
  try {
    if (data.readInt32BE(0) !== VERSION) throw new RangeError('wrong version');
    for (;;) {
      const opcode = data.readUInt8(at++);
      if (opcode === END) break;
      const length = data.readInt32BE(at);
      at += 4;
      if (opcode !== ITEM || length < 0 || at + length > data.length) {
        throw new RangeError(`wrong item at byte ${at - 5}`);
      }
      items.push(data.subarray(at, at + length));
      at += length;
    }
  } catch (cause) {
    throw new RecipeConflictError(
      `the data of znode ${path} is not an item of a queue: ${data.length} bytes; delete the znode, or use another path`,
      { key: path, cause },
    );
  }
  const hasTrailer = data.length - at === TRAILER_BYTES;
  return {
    items,
    id: hasTrailer ? data.subarray(at, at + ID_BYTES) : NO_ID,
    attempts: hasTrailer ? data.readUInt32BE(at + ID_BYTES) : 0,
  };
}

/**
 * Converts items to bytes and back. Curator's QueueSerializer.
 *
 * @publicApi
 */
export interface QueueSerializer<T> {
  /** Returns the bytes of an item. An error that it throws rejects the put. */
  serialize(item: T): string | Uint8Array;
  /**
   * Returns the item of some bytes, and no promise. An error that it throws leaves the item in the queue, see `onError`.
   */
  deserialize(bytes: Buffer): T;
}

/** The serializer of queues whose items are bytes. */
export const BYTES: QueueSerializer<Buffer> = {
  serialize: (item) => {
    if (!Buffer.isBuffer(item)) throw new BadOptionError('item', item, 'a Buffer');
    return item;
  },
  deserialize: (bytes) => bytes,
};

/**
 * A serializer of JSON.
 *
 * @publicApi
 */
export const JSON_SERIALIZER: QueueSerializer<unknown> = {
  serialize: (item) => {
    const expected = 'a value that JSON can express';
    let text: string | undefined;
    try {
      // JSON would store NaN and Infinity as null.
      if (typeof item !== 'number' || Number.isFinite(item)) text = JSON.stringify(item);
    } catch (cause) {
      throw new BadOptionError('item', item, `${expected} (${String(cause)})`, { cause });
    }
    if (text === undefined) throw new BadOptionError('item', item, expected);
    return text;
  },
  deserialize: parseJson,
};

/** @throws Error without the data, which may be secret: the message and the stack of a SyntaxError show a part of it */
export function parseJson(data: Buffer): unknown {
  try {
    return JSON.parse(data.toString());
  } catch {
    throw new Error('it is not JSON');
  }
}

/** Returns the bytes of an item. */
export function serializeItem<T>(serializer: QueueSerializer<T>, item: T): Buffer {
  const bytes: unknown = serializer.serialize(item);
  if (typeof bytes !== 'string' && !isUint8Array(bytes)) {
    if (bytes instanceof Promise) bytes.catch(() => {});
    const option = 'the result of serializer.serialize';
    throw new BadOptionError(option, bytes, 'a string or a Uint8Array, and no promise');
  }
  return checkData(bytes, 'item');
}
