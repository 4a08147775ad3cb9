import { BadOptionError, NodeError } from '../../client/errors.js';
import type { Watch, ZkClient } from '../../client/index.js';
import { PerClient } from './owner.js';
import { SharedCount } from '../shared-count.js';

/**
 * A fixed number of permits, or one in a znode that may change while the semaphore is in use.
 *
 * @publicApi
 */
export type Permits = number | SharedCount;

/** What this process says of a semaphore at a time: whoever uses it says the same. */
const agreed = new PerClient<{ permits: Permits; users: number }>();

/** How many permits a semaphore has. */
export class PermitLimit {
  constructor(
    private readonly client: ZkClient,
    private readonly path: string,
    readonly permits: Permits,
  ) {
    if (!(permits instanceof SharedCount)) checkPositive('permits', permits);
  }

  /** Undefined where the number is shared. */
  get fixed(): number | undefined {
    return typeof this.permits === 'number' ? this.permits : undefined;
  }

  checkCount(count: unknown): asserts count is number {
    checkPositive('count', count);
    if (count > (this.fixed ?? Infinity)) {
      throw new BadOptionError('count', count, `at most the ${this.fixed} permits there are`);
    }
  }

  /** The number of now. */
  async read(): Promise<number> {
    if (typeof this.permits === 'number') return this.permits;
    return (await this.permits.get())?.value ?? this.unset(this.permits);
  }

  /** As {@link read}; the watch of a shared one fires when there may be another. */
  async watched(): Promise<{ value: number; watch: Watch | undefined }> {
    if (typeof this.permits === 'number') return { value: this.permits, watch: undefined };
    const { count, watch } = (await this.permits.watched()) ?? this.unset(this.permits);
    return { value: count.value, watch };
  }

  private unset({ path }: SharedCount): never {
    throw new BadOptionError('permits', path, 'set before the semaphore is used');
  }

  /**
   * Two users of one path with different numbers would let in too many, or wait for permits that the
   * other does not know of. Returns what ends the use.
   */
  agree(): () => void {
    const byPath = agreed.of(this.client);
    const present = byPath.get(this.path) ?? { permits: this.permits, users: 0 };
    if (nameOf(present.permits) !== nameOf(this.permits)) {
      throw this.disagreement(`the ${nameOf(present.permits)} that this process uses`);
    }
    byPath.set(this.path, present);
    present.users++;
    return () => {
      if (--present.users === 0) byPath.delete(this.path);
    };
  }

  /** Compares with what another process wrote into its lease node. Curator's says nothing of it. */
  async checkAgainst(node: string): Promise<void> {
    if (this.fixed === undefined) return;
    try {
      const { data } = await this.client.get(node);
      // What others write may be JSON too, and null.
      const said = JSON.parse(data.toString()) as Record<string, unknown> | null;
      const { permits, host, pid } = said ?? {};
      if (typeof permits === 'number' && permits !== this.fixed) {
        throw this.disagreement(`the ${permits} that process ${pid} on ${host} uses`);
      }
    } catch (error) {
      const goneOrForeign =
        error instanceof SyntaxError || (error instanceof NodeError && error.code === 'NO_NODE');
      if (!goneOrForeign) throw error;
    }
  }

  private disagreement(other: string): BadOptionError {
    return new BadOptionError(`permits of ${this.path}`, nameOf(this.permits), other);
  }
}

function nameOf(permits: Permits): string {
  return typeof permits === 'number' ? String(permits) : `number at ${permits.path}`;
}

function checkPositive(option: string, value: unknown): asserts value is number {
  if (!(Number.isSafeInteger(value) && (value as number) > 0)) {
    throw new BadOptionError(option, value, 'a whole number of 1 or more');
  }
}
