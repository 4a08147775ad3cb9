import { abortable } from '../client/sleep.js';
import { types } from 'node:util';
import { isObservable } from 'rxjs';
import { BadOptionError, CoordinationError } from '../client/errors.js';
import type { ZkClient } from '../client/index.js';
import { captureContext } from '../client/listeners.js';
import { BELOW_ROOT, checkOptions, FUNCTION, type Rules } from '../client/validation.js';
import {
  type AcquireOptions,
  type Entry,
  type HolderDetails,
  type Lease,
  type Participant,
  revoke,
} from '../recipes/index.js';
import { connectWithin } from '../kernel/waiter.js';
import { ACQUIRE_RULES, checkAcquire, type LeaseBase } from '../kernel/lease.js';
import { checkDetails } from '../kernel/node-data.js';
import { type Admission, LeaseTracker } from './lease-tracker.js';

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
 * Defaults of a connection's services, for options that a call leaves out.
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
  /** Milliseconds for which the znode stays after a release; see {@link AcquireOptions.linger}. Default 0. */
  linger?: number | undefined;
  /** Details about this application's holders that others see. A call's `details` are merged into them. Default: none. */
  details?: HolderDetails | undefined;
}

export const LEASE_RULES: Rules<LeaseOptions> = {
  ...ACQUIRE_RULES,
  path: BELOW_ROOT,
  onRevoke: FUNCTION,
};

const { signal: _, holdAtLeast: __, ...DEFAULT_RULES } = ACQUIRE_RULES;

/** Returns the name of an option in error messages. */
export type OptionNaming = (option: string) => string;

export const sameName: OptionNaming = (option) => option;

export function checkLeaseDefaults(defaults: unknown): asserts defaults is LeaseDefaults {
  const named: OptionNaming = (option) => `defaults.${option}`;
  checkOptions(defaults, DEFAULT_RULES, 'defaults', named);
  checkDetailsOf(defaults as LeaseDefaults, named);
}

/** Checks the options of a call for a lock or permits. */
export function checkLeaseOptions<O extends LeaseOptions>(
  options: O,
  rules: Rules<O>,
  named: OptionNaming,
): void {
  checkAcquire(options, rules, named);
  checkDetailsOf(options, named);
}

function checkDetailsOf({ details }: LeaseDefaults, named: OptionNaming): void {
  if (details !== undefined) checkDetails(details, named('details'));
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
    return this.acquireBy(request, (options, onGranted) =>
      request.target.withLock(async (lease) => {
        onGranted();
        const result = await fn(this.track(lease, request));
        checkResult(result);
        return result;
      }, options),
    );
  }

  protected async enterBy<L extends Lease>(
    request: LeaseRequest<L>,
  ): Promise<Entry & { readonly lease: L }> {
    return this.acquireBy(request, async (options) => {
      const entry = await request.target.enter(options);
      this.track(entry.lease, request);
      return entry;
    });
  }

  protected async acquireLease<L extends Lease>(request: LeaseRequest<L>): Promise<L> {
    return this.acquireBy(request, async (options) =>
      this.track(await request.target.acquire(options), request),
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
      ...rest
    } = request.options;
    const details = defaults.details ? { ...defaults.details, ...rest.details } : rest.details;
    const wanted = { ...rest, wait, holdAtMost, fairness, linger, details };
    return this.tracker.admit(request, rest.signal, async (signal, onGranted) => {
      let options: AcquireOptions = { ...wanted, signal };
      if (!this.client.connected && this.client.state === 'CONNECTING') {
        // The recipe checks these options, but only after the connect.
        checkAcquire(options);
        options = await connectWithin(request, options, (limited) =>
          abortable(this.client.connect(), limited),
        );
      }
      return acquire(options, onGranted);
    });
  }

  /** Calls `fn`, which only reads, once the client is connected. */
  protected async readBy<T>(fn: () => Promise<T>): Promise<T> {
    if (this.client.state === 'CONNECTING') await this.client.connect();
    return fn();
  }

  protected revokeParticipant(participant: Participant): Promise<void> {
    return this.readBy(() => revoke(this.client, participant));
  }

  /** Counts `lease` as held, and calls `onRevoke`, until it is released. Returns it. */
  protected track<L extends Lease>(lease: L, { onRevoke }: LeaseRequest<Lease, unknown>): L {
    this.tracker.leases.add(lease);
    const stopListening = onRevoke && listenForRevocation(lease, onRevoke);
    // All leases that the recipes make are of this class.
    (lease as Lease as LeaseBase).onReleased = () => {
      stopListening?.();
      this.tracker.remove(lease);
    };
    return lease;
  }
}

/** Returns whether an acquire failed because others held the lock for all of `wait`. */
export function isContention(error: unknown): error is CoordinationError {
  return error instanceof CoordinationError && (error.code === 'BUSY' || error.code === 'TIMEOUT');
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
  const context = captureContext('ZooKeeperRevocation');
  const report = async () => {
    try {
      await onRevoke(lease);
    } catch (error) {
      // A revoke request by another client must not crash the holder's process.
      process.emitWarning(error instanceof Error ? error : String(error));
    }
  };
  const listener = () => context.runInAsyncScope(report);
  if (revocation.aborted) void listener();
  else revocation.addEventListener('abort', listener, { once: true });
  return () => revocation.removeEventListener('abort', listener);
}
