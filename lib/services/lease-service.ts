import { abortable } from '../client/sleep.js';
import { AsyncResource } from 'node:async_hooks';
import { types } from 'node:util';
import { isObservable } from 'rxjs';
import { BadOptionError, CoordinationError } from '../client/errors.js';
import type { ZkClient } from '../client/index.js';
import { checkOptions } from '../client/validation.js';
import {
  type AcquireOptions,
  type Entry,
  type HolderDetails,
  type Lease,
  type Participant,
  revoke,
} from '../recipes/index.js';
import { cancelled, checkAcquire } from '../recipes/internals/waiter.js';
import { checkDetails } from '../recipes/internals/node-data.js';
import type { Admission, LeaseTracker } from './lease-tracker.js';
import { trackedLease } from './tracked-lease.js';

/**
 * Options of every call that acquires a lock or permits.
 *
 * @publicApi
 */
export interface LeaseOptions extends AcquireOptions {
  /**
   * The exact znode to use instead of one made from the key, to share it with a Curator service. An
   * absolute path; the connection's namespace is not prepended.
   */
  path?: string;
  /**
   * Called when another client asks for the lease back; see {@link Lease.revocation}. The function
   * decides whether to release the lease. An error that it throws becomes a process warning.
   */
  onRevoke?: (lease: Lease) => void | Promise<void>;
}

/**
 * Defaults of a connection's services, for options that a call leaves out.
 *
 * @publicApi
 */
export interface LeaseDefaults {
  /** Milliseconds to wait while others hold the lock; 0 does not wait. Default Infinity. */
  wait?: number;
  /** Milliseconds after which a lease is lost. Default Infinity. */
  holdAtMost?: number;
  /** Default `'handover'`. */
  fairness?: AcquireOptions['fairness'];
  /** Milliseconds; default 0. */
  linger?: number;
  /** Default `'report'`. */
  onDeadlock?: AcquireOptions['onDeadlock'];
  /** Details about this application's holders that others see. A call's `details` are merged into them. */
  details?: HolderDetails;
}

export const LEASE_OPTIONS = [
  'wait',
  'signal',
  'path',
  'holdAtLeast',
  'holdAtMost',
  'fairness',
  'linger',
  'onDeadlock',
  'details',
  'onRevoke',
] as const satisfies (keyof LeaseOptions)[];

const DEFAULTS = [
  'wait',
  'holdAtMost',
  'fairness',
  'linger',
  'details',
  'onDeadlock',
] satisfies (keyof LeaseDefaults)[];

/** Returns the name of an option in error messages. */
export type OptionNaming = (option: string) => string;

export function checkLeaseDefaults(defaults: unknown): asserts defaults is LeaseDefaults {
  checkOptions(defaults, DEFAULTS, 'defaults');
  const named: OptionNaming = (option) => `defaults.${option}`;
  checkAcquire(defaults as LeaseDefaults, named);
  checkLeaseOptions(defaults as LeaseDefaults, named);
}

/** Checks the options that the recipe, which checks {@link AcquireOptions}, does not receive as they are. */
export function checkLeaseOptions({ details, onRevoke }: LeaseOptions, named?: OptionNaming): void {
  if (details !== undefined) checkDetails(details, named?.('details') ?? 'details');
  if (onRevoke !== undefined && typeof onRevoke !== 'function') {
    throw new BadOptionError(named?.('onRevoke') ?? 'onRevoke', onRevoke, 'a function');
  }
}

/** A lock, a multi-lock or a semaphore. */
interface Acquirable<L extends Lease> {
  withLock<T>(fn: (lease: L) => Promise<T>, options: AcquireOptions): Promise<T>;
  enter(options: AcquireOptions): Promise<Entry & { readonly lease: L }>;
  acquire(options: AcquireOptions): Promise<L>;
}

/** One call that acquires. */
export interface LeaseRequest<L extends Lease, Target = Acquirable<L>> extends Admission {
  readonly target: Target;
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

  protected constructor(
    protected readonly client: ZkClient,
    private readonly defaults: LeaseDefaults,
    protected readonly tracker: LeaseTracker,
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
    let untrack: (() => void) | undefined;
    try {
      return await this.acquireBy(request, (options, onGranted) =>
        request.target.withLock(async (lease) => {
          onGranted();
          untrack = this.track(lease, request);
          const result = await fn(lease);
          checkResult(result);
          return result;
        }, options),
      );
    } finally {
      untrack?.();
    }
  }

  protected async enterBy<L extends Lease>(
    request: LeaseRequest<L>,
  ): Promise<Entry & { readonly lease: L }> {
    return this.acquireBy(request, async (options) => {
      const entry = await request.target.enter(options);
      const untrack = this.track(entry.lease, request);
      return {
        lease: entry.lease,
        run: (fn) => entry.run(fn),
        release: async () => {
          try {
            await entry.release();
          } finally {
            untrack();
          }
        },
      };
    });
  }

  protected async acquireLease<L extends Lease>(request: LeaseRequest<L>): Promise<L> {
    return this.acquireBy(request, async (options) =>
      this.trackUntilRelease(await request.target.acquire(options), request),
    );
  }

  /**
   * Calls `acquire` with the options of the call and the connection's defaults, once the client is
   * connected. `acquire` calls `onGranted` if it settles later than the grant.
   */
  protected async acquireBy<T>(
    request: LeaseRequest<Lease, unknown>,
    acquire: (options: AcquireOptions, onGranted: () => void) => Promise<T>,
  ): Promise<T> {
    const { defaults } = this;
    const {
      wait = defaults.wait,
      holdAtMost = defaults.holdAtMost,
      fairness = defaults.fairness,
      linger = defaults.linger,
      onDeadlock = defaults.onDeadlock,
      ...rest
    } = request.options;
    const details = defaults.details ? { ...defaults.details, ...rest.details } : rest.details;
    const options = { ...rest, wait, holdAtMost, fairness, linger, onDeadlock, details };
    return this.tracker.admit(request, rest.signal, async (signal, onGranted) => {
      if (!this.client.connected && this.client.state === 'CONNECTING') {
        // The recipe checks these options, but only after the connect.
        checkAcquire(options);
        await this.connect(request, signal);
      }
      return acquire({ ...options, signal }, onGranted);
    });
  }

  protected trackUntilRelease<L extends Lease>(lease: L, request: LeaseRequest<Lease, unknown>): L {
    const tracked = trackedLease(lease, () => untrack());
    const untrack = this.track(tracked, request);
    return tracked;
  }

  /** Calls `fn`, which only reads, once the client is connected. */
  protected async readBy<T>(fn: () => Promise<T>): Promise<T> {
    if (this.client.state === 'CONNECTING') await this.client.connect();
    return fn();
  }

  protected revokeParticipant(participant: Participant): Promise<void> {
    return this.readBy(() => revoke(this.client, participant));
  }

  /** Counts `lease` as held, and calls `onRevoke`, until the returned function is called. */
  private track(lease: Lease, { onRevoke }: LeaseRequest<Lease, unknown>): () => void {
    this.tracker.leases.add(lease);
    const stopListening = onRevoke && listenForRevocation(lease, onRevoke);
    return () => {
      stopListening?.();
      this.tracker.remove(lease);
    };
  }

  /** Makes the first connection if `lazyConnection` let the application start without one. */
  private async connect(admission: Admission, signal: AbortSignal): Promise<void> {
    try {
      await abortable(this.client.connect(), signal);
    } catch (error) {
      throw signal.aborted ? cancelled(admission, signal) : error;
    }
  }
}

/** Returns whether an acquire failed because others held the lock for all of `wait`. */
export function isContention(error: unknown): error is CoordinationError {
  return error instanceof CoordinationError && (error.code === 'BUSY' || error.code === 'TIMEOUT');
}

/** Resolves with undefined if others held the lock for all of `wait`. */
export async function undefinedIfContended<T>(acquiring: Promise<T>): Promise<T | undefined> {
  try {
    return await acquiring;
  } catch (error) {
    if (isContention(error)) return undefined;
    throw error;
  }
}

/** An Observable or a generator would start its work after the release, without the lock. */
function checkResult(result: unknown): void {
  if (!isObservable(result) && !types.isGeneratorObject(result)) return;
  const expected =
    'no Observable and no generator, which would start after the release (await its values inside fn: lastValueFrom, for await)';
  throw new BadOptionError('result of fn', result, expected);
}

/** Calls `onRevoke` in the caller's async context. Returns a function that removes the listener. */
function listenForRevocation(
  lease: Lease,
  onRevoke: NonNullable<LeaseOptions['onRevoke']>,
): () => void {
  const { revocation } = lease;
  const listener = AsyncResource.bind(async () => {
    try {
      await onRevoke(lease);
    } catch (error) {
      // A revoke request by another client must not crash the holder's process.
      process.emitWarning(error instanceof Error ? error : String(error));
    }
  }, 'ZooKeeperRevocation');
  if (revocation.aborted) void listener();
  else revocation.addEventListener('abort', listener, { once: true });
  return () => revocation.removeEventListener('abort', listener);
}
