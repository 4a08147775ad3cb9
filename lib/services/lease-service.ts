import { AsyncResource } from 'node:async_hooks';
import { types } from 'node:util';
import { isObservable } from 'rxjs';
import { BadOptionError, CoordinationError } from '../client/errors.js';
import type { ZkClient } from '../client/index.js';
import {
  type AcquireOptions,
  type Entry,
  type Lease,
  type Lock,
  revoke,
} from '../recipes/index.js';
import type { Participant } from '../recipes/index.js';
import { abortable, cancelled, type Wanted } from '../recipes/internals/waiter.js';
import { checkLeaseDefaults, type LeaseDefaults, type LeaseOptions } from './service-options.js';
import { trackedLease } from './held-leases.js';
import type { Turnstile } from './lease-tracker.js';

/** What is asked for: a lock, several as one, permits. */
export interface Asked<Options extends LeaseOptions> {
  readonly key: string;
  readonly reenters: boolean;
  readonly locks: readonly Pick<Lock, 'participants'>[];
  readonly options: Options;
}

/**
 * What LockService and SemaphoreService have in common: they take what the recipes offer, with the
 * connection's defaults, once it is connected, and in the sight of a shutdown.
 */
export abstract class LeaseService {
  /** Milliseconds that a wait takes where the call does not say. */
  readonly defaultWait: number;
  protected abstract readonly noun: Wanted['noun'];

  protected constructor(
    protected readonly client: ZkClient,
    private readonly defaults: LeaseDefaults,
    protected readonly turnstile: Turnstile,
  ) {
    checkLeaseDefaults(defaults);
    this.defaultWait = defaults.wait ?? Infinity;
    client.onState(() => this.turnstile.leases.sweep());
  }

  /** Runs `fn` as the holder of what `enter` takes. */
  protected async holding<L extends Lease, T>(
    entering: Promise<Entry & { readonly lease: L }>,
    fn: (lease: L) => T | Promise<T>,
  ): Promise<T> {
    const entry = await entering;
    try {
      const result = await entry.run(() => fn(entry.lease));
      checkBegun(result);
      return result;
    } finally {
      await entry.release();
    }
  }

  /** Takes a lease for whoever releases it. */
  protected async takeLease<L extends Lease>(
    asked: Asked<LeaseOptions>,
    how: (options: AcquireOptions) => Promise<L>,
  ): Promise<L> {
    return this.track(await this.take(asked, how), asked.options);
  }

  /** Takes a lease for a holder that is not a callback. */
  protected async takeEntry<L extends Lease>(
    asked: Asked<LeaseOptions>,
    how: (options: AcquireOptions) => Promise<Entry & { readonly lease: L }>,
  ): Promise<Entry & { readonly lease: L }> {
    const entry = await this.take(asked, how);
    const { lease } = entry;
    this.turnstile.leases.add(lease);
    const stopListening = listen(lease, asked.options);
    return {
      lease,
      run: (fn) => entry.run(fn),
      release: async () => {
        try {
          await entry.release();
        } finally {
          stopListening();
          this.turnstile.leases.delete(lease);
        }
      },
    };
  }

  protected async take<T>(
    { key, reenters, locks, options }: Asked<LeaseOptions>,
    how: (options: AcquireOptions) => Promise<T>,
  ): Promise<T> {
    const { defaults, noun } = this;
    const { signal, wait = this.defaultWait, holdAtLeast } = options;
    const {
      holdAtMost = defaults.holdAtMost,
      fairness = defaults.fairness,
      linger = defaults.linger,
      onDeadlock = defaults.onDeadlock,
    } = options;
    const details = defaults.details
      ? { ...defaults.details, ...options.details }
      : options.details;
    return this.turnstile.pass({ key, noun, reenters, locks, signal }, async (cancel) => {
      await this.connected(key, cancel);
      return how({
        wait,
        holdAtLeast,
        holdAtMost,
        fairness,
        linger,
        onDeadlock,
        details,
        signal: cancel,
      });
    });
  }

  protected track<L extends Lease>(lease: L, options: LeaseOptions): L {
    const { leases } = this.turnstile;
    const tracked = trackedLease(lease, () => {
      stopListening();
      leases.delete(tracked);
    });
    leases.add(tracked);
    const stopListening = listen(tracked, options);
    return tracked;
  }

  /** Looks at what others do, once there is a connection. */
  protected async look<T>(fn: () => Promise<T>): Promise<T> {
    if (this.client.state === 'CONNECTING') await this.client.connect();
    return fn();
  }

  protected revokeOne(participant: Participant): Promise<void> {
    return this.look(() => revoke(this.client, participant));
  }

  /** Makes the first connection where the application started without one. */
  private async connected(key: string, signal: AbortSignal): Promise<void> {
    if (this.client.state !== 'CONNECTING') return;
    try {
      await abortable(this.client.connect(), signal);
    } catch (error) {
      throw signal.aborted ? cancelled({ noun: this.noun, key }, signal) : error;
    }
  }
}

/** Whether an error says that others held the lock for all of the wait. */
export function isContention(error: unknown): error is CoordinationError {
  return error instanceof CoordinationError && (error.code === 'BUSY' || error.code === 'TIMEOUT');
}

/** What was taken, or undefined where others held it for all of the wait. */
export async function unlessTaken<T>(taking: Promise<T>): Promise<T | undefined> {
  try {
    return await taking;
  } catch (error) {
    if (isContention(error)) return undefined;
    throw error;
  }
}

/** An Observable does its work when it is subscribed to, a generator when it is iterated: after the release. */
function checkBegun(result: unknown): void {
  if (!isObservable(result) && !types.isGeneratorObject(result)) return;
  const expected =
    'no Observable and no generator, which would begin when the lease is given back (await what it yields inside: lastValueFrom, for await)';
  throw new BadOptionError('result of fn', result, expected);
}

/** Tells the holder who asked for it. A re-entry's listener ends with it, though the lock is held on. */
function listen(lease: Lease, { onRevoke }: LeaseOptions): () => void {
  if (!onRevoke) return () => {};
  const { revocation } = lease;
  const tell = AsyncResource.bind(async () => {
    try {
      await onRevoke(lease);
    } catch (error) {
      // Whoever asks for the lock must not bring its holder down.
      process.emitWarning(error instanceof Error ? error : String(error));
    }
  }, 'ZooKeeperRevocation');
  if (revocation.aborted) void tell();
  else revocation.addEventListener('abort', tell, { once: true });
  return () => revocation.removeEventListener('abort', tell);
}
