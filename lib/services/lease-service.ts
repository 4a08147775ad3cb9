import { types } from 'node:util';
import { isObservable } from 'rxjs';
import { BadOptionError, CoordinationError } from '../client/errors.js';
import type { ZkClient } from '../client/index.js';
import { captureContext, warn } from '../client/listeners.js';
import { abortable, onAbort } from '../client/sleep.js';
import { BELOW_ROOT, checkOptions, FUNCTION, type Rules } from '../client/validation.js';
import {
  type AcquireOptions,
  type Entry,
  type HolderDetails,
  type Lease,
  type Participant,
  revoke,
} from '../recipes/index.js';
import { RESOLVED } from '../kernel/grant.js';
import { connectWithin } from '../kernel/waiter.js';
import { ACQUIRE_RULES, checkAcquire, checkHold, type LeaseBase } from '../kernel/lease.js';
import { checkDetails } from '../kernel/node-data.js';
import { LeaseTracker, type TrackedRequest } from './lease-tracker.js';

/**
 * Options of every call that acquires a lock or permits.
 *
 * @publicApi
 */
export interface LeaseOptions extends AcquireOptions {
  /**
   * The exact znode to use instead of one made from the key, to share it with a Curator service. An
   * absolute path; the connection's namespace is not prepended. Default: `<namespace>/locks/<key>`, or
   * `<namespace>/semaphores/<key>`.
   */
  path?: string | undefined;
  /**
   * Called when another client asks for the lease back; see {@link Lease.revocation}. The function
   * decides whether to release the lease. An error that it throws becomes a process warning. Default: none.
   */
  onRevoke?: ((lease: Lease) => void | Promise<void>) | undefined;
}

/**
 * The default options of the services of a connection.
 *
 * @publicApi
 */
export interface LeaseDefaults {
  /** Milliseconds that a call waits at most, for other holders and for a connection; 0 is a try. Default Infinity. */
  wait?: number | undefined;
  /** Milliseconds after which a lease is lost. Default Infinity. */
  holdAtMost?: number | undefined;
  /** The order of the callers of one process; see {@link AcquireOptions.fairness}. Default `'handover'`. */
  fairness?: AcquireOptions['fairness'] | undefined;
  /** Milliseconds for which the znode stays after a release, or `'auto'`; see {@link AcquireOptions.linger}. Default 0. */
  linger?: AcquireOptions['linger'] | undefined;
  /** Details about this application's holders that others see. A call's `details` are merged into them. Default: none. */
  details?: HolderDetails | undefined;
}

export const LEASE_RULES: Rules<LeaseOptions> = {
  ...ACQUIRE_RULES,
  path: BELOW_ROOT,
  onRevoke: FUNCTION,
};

const { signal: _, holdAtLeast: __, ...DEFAULT_RULES } = ACQUIRE_RULES;

/** Returns the name of an option in error messages. Default: the option itself. */
export type OptionNaming = (option: string) => string;

export function checkLeaseDefaults(defaults: unknown): asserts defaults is LeaseDefaults {
  checkOptions(defaults, DEFAULT_RULES, 'defaults', (option) => `defaults.${option}`);
  checkDetails((defaults as LeaseDefaults).details, 'defaults.details');
}

/** Checks the options of a call for a lock or permits. */
export function checkLeaseOptions<O extends LeaseOptions>(
  options: O,
  rules: Rules<O>,
  named?: OptionNaming,
): void {
  checkAcquire(options, rules, named);
  checkDetails(options.details, named?.('details') ?? 'details');
}

/** A lock, a multi-lock or a semaphore. Its methods do not check their options. */
interface Acquirable<L extends Lease> {
  enterChecked(options: AcquireOptions): Promise<LeaseEntry<L>> | LeaseEntry<L>;
  acquireChecked(options: AcquireOptions): Promise<L>;
}

type LeaseEntry<L extends Lease> = Entry & { readonly lease: L };

/** A call that acquires. Its options were checked. */
export interface LeaseRequest<L extends Lease, T = Acquirable<L>> extends TrackedRequest {
  readonly target: T;
  readonly options: AcquireOptions;
  readonly onRevoke: LeaseOptions['onRevoke'];
}

/**
 * Base of LockService and SemaphoreService. It adds to the recipes the connection's defaults, the first
 * connect, and the tracking of leases that a shutdown needs.
 */
export abstract class LeaseService {
  /** Milliseconds that a call without `wait` waits. */
  readonly defaultWait: number;

  constructor(
    protected readonly client: ZkClient,
    private readonly defaults: LeaseDefaults = {},
    protected readonly tracker = new LeaseTracker(),
  ) {
    checkLeaseDefaults(defaults);
    this.defaultWait = defaults.wait ?? Infinity;
    client.onState(() => tracker.removeLost());
  }

  /** Acquires, runs `fn` as the holder, and releases when the result of `fn` has settled. */
  protected async runHolding<L extends Lease, T>(
    request: LeaseRequest<L>,
    fn: (lease: L) => T | Promise<T>,
  ): Promise<T> {
    const { lease, run, release } = await this.enterBy(request);
    try {
      const result = await run(() => fn(lease));
      if (isObservable(result) || types.isGeneratorObject(result)) throw lateResult(result);
      return result;
    } finally {
      const released = release();
      if (released !== RESOLVED) await released;
    }
  }

  protected enterBy<L extends Lease>(request: LeaseRequest<L>): Promise<LeaseEntry<L>> {
    return this.acquireBy(
      request,
      (options) => request.target.enterChecked(options),
      ({ lease }) => this.track(lease, request),
    );
  }

  protected acquireLease<L extends Lease>(request: LeaseRequest<L>): Promise<L> {
    return this.acquireBy(
      request,
      (options) => request.target.acquireChecked(options),
      (lease) => this.track(lease, request),
    );
  }

  /** Resolves to undefined if others hold the lock for all of `wait`, by default 0. */
  protected async tryAcquireLease<L extends Lease>(
    request: LeaseRequest<L>,
  ): Promise<L | undefined> {
    const options = { ...request.options, wait: request.options.wait ?? 0 };
    try {
      return await this.acquireLease({ ...request, options });
    } catch (error) {
      if (isContention(error)) return undefined;
      throw error;
    }
  }

  /**
   * Calls `acquire` with the options of the call and the connection's defaults, once the client is connected.
   *
   * @param track is called with the result before the request ceases to be pending
   */
  protected acquireBy<T>(
    request: LeaseRequest<Lease, unknown>,
    acquire: (options: AcquireOptions) => Promise<T> | T,
    track: (acquired: T) => void,
  ): Promise<T> {
    const { defaults } = this;
    const {
      wait = defaults.wait,
      holdAtMost = defaults.holdAtMost,
      fairness = defaults.fairness,
      linger = defaults.linger,
      ...rest
    } = request.options;
    const details = defaults.details ? { ...defaults.details, ...rest.details } : rest.details;
    const acquireIn = (signal: AbortSignal) => {
      const options = { ...rest, wait, holdAtMost, fairness, linger, details, signal };
      // It may exceed the default holdAtMost.
      if (rest.holdAtLeast) checkHold(options);
      return this.client.connected || this.client.state !== 'CONNECTING'
        ? acquire(options)
        : this.connectFor(request, options).then(acquire);
    };
    return this.tracker.admit(request, rest.signal, acquireIn, track);
  }

  private connectFor(request: LeaseRequest<Lease, unknown>, options: AcquireOptions) {
    return connectWithin(request, options, (signal) => abortable(this.client.connect(), signal));
  }

  /** Calls `fn`, which only reads, once the client is connected. */
  protected async readBy<T>(fn: () => Promise<T>): Promise<T> {
    if (this.client.state === 'CONNECTING') await this.client.connect();
    return fn();
  }

  protected revokeParticipant(participant: Participant): Promise<void> {
    return this.readBy(() => revoke(this.client, participant));
  }

  /** Counts `lease` as held, and calls `onRevoke`, until it is released. */
  protected track(lease: Lease, { onRevoke }: LeaseRequest<Lease, unknown>): void {
    // All leases that the recipes make are of this class.
    const tracked = lease as LeaseBase;
    this.tracker.leases.add(tracked);
    const stopListening = onRevoke && listenForRevocation(lease, onRevoke);
    tracked.onReleased = () => {
      stopListening?.();
      this.tracker.remove(tracked);
    };
  }
}

/** Returns whether an acquire failed because others held the lock for all of `wait`. */
export function isContention(error: unknown): error is CoordinationError {
  return error instanceof CoordinationError && (error.code === 'BUSY' || error.code === 'TIMEOUT');
}

/** Returns the error for an Observable or a generator: it would start its work after the release, without the lock. */
function lateResult(result: unknown): BadOptionError {
  const expected =
    'no Observable and no generator, which would start after the release (await its values inside fn: lastValueFrom, for await)';
  return new BadOptionError('result of fn', result, expected);
}

/** Calls `onRevoke` in the caller's async context. Returns a function that removes the listener. */
function listenForRevocation(
  lease: Lease,
  onRevoke: NonNullable<LeaseOptions['onRevoke']>,
): () => void {
  const { revocation } = lease;
  const context = captureContext('ZooKeeperRevocation');
  const report = async () => {
    try {
      await onRevoke(lease);
    } catch (error) {
      // A revoke request by another client must not crash the holder's process.
      warn(error);
    }
  };
  return onAbort(revocation, () => context.runInAsyncScope(report));
}
