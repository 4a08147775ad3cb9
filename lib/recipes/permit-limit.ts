import { BadOptionError, foreignText, isCode } from '../client/errors.js';
import type { Watch, ZkClient } from '../client/index.js';
import { checkValue, wholeNumber } from '../client/validation.js';
import { SharedCount } from './shared-count.js';

/**
 * A fixed number of permits, or one in a znode that may change while the semaphore is in use.
 *
 * @publicApi
 */
export type Permits = number | SharedCount;

/** The number of permits that the users in this process agree on, by client and path. */
const agreed = new WeakMap<ZkClient, Map<string, { permits: Permits; users: number }>>();

/** The number of permits of a semaphore. */
export class PermitLimit {
  constructor(
    private readonly client: ZkClient,
    private readonly path: string,
    readonly permits: Permits,
  ) {
    if (!(permits instanceof SharedCount)) checkValue('permits', permits, wholeNumber(1));
  }

  /** The number if it is fixed; undefined if a SharedCount has it. */
  get fixed(): number | undefined {
    return typeof this.permits === 'number' ? this.permits : undefined;
  }

  checkCount(count: number): void {
    if (count > (this.fixed ?? Infinity)) {
      throw new BadOptionError('count', count, `at most the ${this.fixed} permits there are`);
    }
  }

  /** Resolves to the current number. */
  async read(): Promise<number> {
    if (typeof this.permits === 'number') return this.permits;
    return (await this.permits.get())?.value ?? this.unset(this.permits);
  }

  /** As {@link read}. The watch of a shared number fires when the number may have changed. */
  async readAndWatch(): Promise<{ value: number; watch: Watch | undefined }> {
    if (typeof this.permits === 'number') return { value: this.permits, watch: undefined };
    const { count, watch } = (await this.permits.getAndWatch()) ?? this.unset(this.permits);
    return { value: count.value, watch };
  }

  private unset({ path }: SharedCount): never {
    const message = `the shared number of permits at ${path} was never set; first call setPermits() of SemaphoreService, or set() of the SharedCount`;
    throw new BadOptionError('permits', path, { message });
  }

  /**
   * Registers a user of the semaphore. Users of one path with different numbers would grant too many permits, or wait
   * for permits that the others do not know of.
   *
   * @returns a function that ends the use
   * @throws BadOptionError if another user in this process has another number
   */
  addUser(): () => void {
    let byPath = agreed.get(this.client);
    if (!byPath) agreed.set(this.client, (byPath = new Map()));
    const current = byPath.get(this.path) ?? { permits: this.permits, users: 0 };
    if (nameOf(current.permits) !== nameOf(this.permits)) {
      throw this.disagreement(`the ${nameOf(current.permits)} that this process uses`);
    }
    byPath.set(this.path, current);
    current.users++;
    return () => {
      if (--current.users === 0) byPath!.delete(this.path);
    };
  }

  /**
   * Compares the number with the one that another process wrote into its lease znode. Resolves to false if the znode
   * states none: Curator and users of a SharedCount write none.
   *
   * @throws BadOptionError if it is another number
   */
  async checkAgainst(node: string): Promise<boolean> {
    if (this.fixed === undefined) return true;
    try {
      const { data } = await this.client.get(node);
      // Another library may write JSON as well, even `null`.
      const details = JSON.parse(data.toString()) as Record<string, unknown> | null;
      const { permits, host, pid } = details ?? {};
      if (typeof permits === 'number' && permits !== this.fixed) {
        throw this.disagreement(
          `the ${permits} that process ${foreignText(pid)} on ${foreignText(host)} uses`,
        );
      }
      return typeof permits === 'number';
    } catch (error) {
      if (!(error instanceof SyntaxError || isCode(error, 'NO_NODE'))) throw error;
      return false;
    }
  }

  private disagreement(other: string): BadOptionError {
    return new BadOptionError(`permits of ${this.path}`, nameOf(this.permits), other);
  }
}

function nameOf(permits: Permits): string | number {
  return typeof permits === 'number' ? permits : `number at ${permits.path}`;
}
