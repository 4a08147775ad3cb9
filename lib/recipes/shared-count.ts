import { BadOptionError, ifExists, isCode } from '../client/errors.js';
import type { Stat, Watch, ZkClient } from '../client/index.js';
import { checkPath } from '../client/validation.js';
import { RecipeConflictError } from '../kernel/errors.js';
import { setPersistent } from '../kernel/persistent-znode.js';

/*
 * Shared count (Curator's SharedCount): a number in a znode, four bytes, big-endian, changed by versioned sets.
 */

const BYTES = 4;
const MAX_VALUE = 2 ** 31 - 1;

/**
 * A number that all processes share, in the format of Curator's `SharedCount`. For example, the number of permits of a
 * semaphore that changes while the semaphore is in use. An integer between -(2^31 - 1) and 2^31 - 1: others are a
 * BadOptionError. All methods reject as the operations of {@link ZkClient} do, and those that read with a
 * RecipeConflictError if the data of the znode has another format.
 *
 * @publicApi
 */
export class SharedCount {
  /** @throws BadOptionError if the path is invalid */
  constructor(
    readonly client: ZkClient,
    /** The znode of the number. */
    readonly path: string,
  ) {
    checkPath(path);
  }

  /** Reads the number, and its version for {@link trySet}. Resolves to undefined if it was never set. */
  async get(): Promise<{ value: number; version: number } | undefined> {
    const node = await ifExists(this.client.get(this.path));
    return node && this.decode(node);
  }

  /** Sets the number, whatever it is, and creates the znode if it is missing. */
  async set(value: number): Promise<void> {
    await setPersistent(this.client, this.path, encode(value));
  }

  /** Sets the number. Resolves to false if another process has set it since `version`. */
  async trySet(value: number, version: number): Promise<boolean> {
    try {
      await this.client.set(this.path, encode(value), version);
      return true;
    } catch (error) {
      if (isCode(error, 'BAD_VERSION')) return false;
      throw error;
    }
  }

  /** As {@link get}, with a watch that fires at the next change. */
  async getAndWatch(): Promise<
    { count: { value: number; version: number }; watch: Watch } | undefined
  > {
    const node = await ifExists(this.client.watch(this.path));
    try {
      return node && { count: this.decode(node), watch: node.watch };
    } catch (error) {
      node?.watch.remove();
      throw error;
    }
  }

  private decode({ data, stat }: { data: Buffer; stat: Stat }): { value: number; version: number } {
    if (data.length !== BYTES) {
      throw new RecipeConflictError(
        `the data of znode ${this.path} is not a SharedCount (${BYTES} bytes): ${data.length} bytes; use another path`,
      );
    }
    return { value: data.readInt32BE(), version: stat.version };
  }
}

function encode(value: unknown): Uint8Array {
  if (!Number.isInteger(value) || Math.abs(value as number) > MAX_VALUE) {
    throw new BadOptionError('value', value, `an integer of at most ${MAX_VALUE}`);
  }
  const data = Buffer.alloc(BYTES);
  data.writeInt32BE(value as number);
  return data;
}
