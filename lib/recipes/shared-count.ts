import { BadOptionError, isCode } from '../client/errors.js';
import type { Stat, Watch, ZkClient } from '../client/index.js';
import { checkPath, parentOf } from '../client/validation.js';
import { RecipeConflictError } from '../kernel/errors.js';

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
    return this.read(async () => this.decode(await this.client.get(this.path)));
  }

  /** Sets the number, whatever it is, and creates the znode if it is missing. */
  async set(value: number): Promise<void> {
    const data = encode(value);
    for (;;) {
      try {
        await this.client.set(this.path, data);
        return;
      } catch (error) {
        if (!isCode(error, 'NO_NODE')) throw error;
      }
      try {
        await this.client.create(this.path, data);
        return;
      } catch (error) {
        if (isCode(error, 'NO_NODE')) {
          await this.client.ensureContainers(parentOf(this.path));
        } else if (!isCode(error, 'NODE_EXISTS')) {
          throw error;
        }
      }
    }
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
    return this.read(async () => {
      const { watch, ...node } = await this.client.watch(this.path);
      try {
        return { count: this.decode(node), watch };
      } catch (error) {
        watch.remove();
        throw error;
      }
    });
  }

  private async read<T>(read: () => Promise<T>): Promise<T | undefined> {
    try {
      return await read();
    } catch (error) {
      if (isCode(error, 'NO_NODE')) return undefined;
      throw error;
    }
  }

  private decode({ data, stat }: { data: Buffer; stat: Stat }): { value: number; version: number } {
    if (data.length !== BYTES) {
      throw new RecipeConflictError(
        `the data of znode ${this.path} is not a SharedCount (${BYTES} bytes): ${data.length} bytes, ${data.toString('hex', 0, 32)}; use another path`,
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
