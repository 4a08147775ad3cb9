import { BadOptionError } from '../client/errors.js';
import { checkDetails } from '../recipes/holder-details.js';
import type { AcquireOptions, Fairness, HolderDetails, Lease } from '../recipes/index.js';
import { checkAcquire } from '../recipes/wait.js';

/**
 * What every call of a service takes.
 *
 * @publicApi
 */
export interface LeaseOptions extends AcquireOptions {
  /**
   * The exact znode instead of one made from the key, to share it with a Curator service. An absolute
   * path, outside of the namespace unless it says so itself.
   */
  path?: string;
  /**
   * Called when somebody asks for what the lease holds: see {@link Lease.revocation}. It decides
   * whether to release. What it throws becomes a process warning.
   */
  onRevoke?: (lease: Lease) => void | Promise<void>;
}

/**
 * What a connection's services do where the call does not say.
 *
 * @publicApi
 */
export interface LeaseDefaults {
  /** Milliseconds to wait while others hold the lock; 0 only tries. Default Infinity. */
  wait?: number;
  /** Milliseconds after which a lease is lost. Default Infinity. */
  holdAtMost?: number;
  /** Default `'handover'`. */
  fairness?: Fairness;
  /** Milliseconds; default 0. */
  linger?: number;
  /** Default `'report'`. */
  onDeadlock?: AcquireOptions['onDeadlock'];
  /** What others see of this application's holders; what a call says is added to it. */
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

export function checkLeaseDefaults(defaults: unknown): asserts defaults is LeaseDefaults {
  checkKnownOptions('defaults', defaults, DEFAULTS);
  checkLeaseOptions(defaults as LeaseDefaults, (option) => `defaults.${option}`);
}

/** @param named what errors call an option */
export function checkLeaseOptions(options: LeaseOptions, named = (option: string) => option): void {
  checkAcquire(options, named);
  checkDetails(options.details, named('details'));
  const { onRevoke } = options;
  if (onRevoke !== undefined && typeof onRevoke !== 'function') {
    throw new BadOptionError(named('onRevoke'), onRevoke, 'a function');
  }
}

/** Checks that `options` is an object of no other properties than the known ones: a typo is an error. */
export function checkKnownOptions(what: string, options: unknown, known: readonly string[]): void {
  if (typeof options !== 'object' || options === null || Array.isArray(options)) {
    throw new BadOptionError(what, options, `an object of the options ${known.join(', ')}`);
  }
  for (const [option, value] of Object.entries(options)) {
    if (!known.includes(option)) {
      const expected = `left out, since the known ${what} are ${known.join(', ')}`;
      throw new BadOptionError(option, value, expected);
    }
  }
}
