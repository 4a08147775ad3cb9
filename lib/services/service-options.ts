import { BadOptionError } from '../client/errors.js';
import type {
  AcquireOptions,
  CandidateOptions,
  Fairness,
  HolderDetails,
  LeaderSelectorOptions,
  Lease,
} from '../recipes/index.js';
import { checkDetails } from '../recipes/internals/holder-data.js';
import { checkAcquire } from '../recipes/internals/waiter.js';
import { checkKey } from './keys.js';

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

/**
 * How a lock excludes: `'exclusive'` everybody, `'write'` all readers and writers, `'read'` the
 * writers alone. A key is used exclusively or by readers and writers, not both: the two are different
 * locks of Curator's, and where they meet the one who comes later gets a {@link ForeignNodeError}.
 *
 * @publicApi
 */
export type LockMode = 'exclusive' | 'read' | 'write';

/**
 * What the methods of {@link LockService} take that acquire.
 *
 * @publicApi
 */
export interface LockOptions extends LeaseOptions {
  /**
   * Default `'exclusive'`. Inside a `'write'` lock its holder may take the `'read'` lock of the same
   * key too; a reader that asks for `'write'` is refused, since it would wait for itself.
   */
  mode?: LockMode;
  /** False refuses to take a lock again that this call chain holds already. Default true. */
  reentrant?: boolean;
}

const MODES: readonly unknown[] = ['exclusive', 'read', 'write'] satisfies LockMode[];

export const LOCK_OPTIONS = [...LEASE_OPTIONS, 'mode', 'reentrant'] satisfies (keyof LockOptions)[];

export function checkLockOptions(
  options: unknown,
  keys: unknown,
  named = (option: string) => option,
): asserts options is LockOptions {
  checkKnownOptions(named('options'), options, LOCK_OPTIONS);
  const { mode, reentrant, path } = options as LockOptions;
  checkMode(mode, named);
  if (reentrant !== undefined && typeof reentrant !== 'boolean') {
    throw new BadOptionError(named('reentrant'), reentrant, 'true or false');
  }
  if (path !== undefined && Array.isArray(keys)) {
    throw new BadOptionError(named('path'), path, 'left out with a list of keys');
  }
  checkLeaseOptions(options as LockOptions, named);
}

export function checkMode(mode: unknown, named = (option: string) => option): void {
  if (mode !== undefined && !MODES.includes(mode)) {
    throw new BadOptionError(named('mode'), mode, "'exclusive', 'read' or 'write'");
  }
}

/**
 * Which semaphore is meant, and how many permits it has.
 *
 * @publicApi
 */
export interface SemaphoreQuery {
  /**
   * How many permits there are: a number that all users of the key agree on, or `'shared'` for the
   * number that {@link SemaphoreService.setPermits} set.
   */
  permits: number | 'shared';
  /** The exact znode of the semaphore instead of `<namespace>/semaphores/<key>`. */
  path?: string;
}

/**
 * What the methods of {@link SemaphoreService} take that acquire.
 *
 * @publicApi
 */
export interface AcquirePermitOptions extends LeaseOptions, SemaphoreQuery {
  /** How many permits to take, all or none. Default 1. */
  count?: number;
}

export const SEMAPHORE_OPTIONS = [
  ...LEASE_OPTIONS,
  'permits',
  'count',
] satisfies (keyof AcquirePermitOptions)[];

const QUERY_OPTIONS = ['permits', 'path'] satisfies (keyof SemaphoreQuery)[];

export function checkSemaphoreOptions(
  options: unknown,
  named = (option: string) => option,
): asserts options is AcquirePermitOptions {
  checkKnownOptions(named('options'), options, SEMAPHORE_OPTIONS);
  const { permits, count = 1 } = options as AcquirePermitOptions;
  checkPermits(permits, named);
  checkCount(named('count'), count);
  if (permits !== 'shared' && count > permits) {
    throw new BadOptionError(named('count'), count, `at most the ${permits} permits there are`);
  }
  checkLeaseOptions(options as AcquirePermitOptions, named);
}

export function checkSemaphoreQuery(options: unknown): asserts options is SemaphoreQuery {
  checkKnownOptions('options', options, QUERY_OPTIONS);
  checkPermits((options as SemaphoreQuery).permits);
}

export function checkCount(
  what: string,
  count: unknown,
  expected = 'a whole number of 1 or more',
): asserts count is number {
  if (!Number.isSafeInteger(count) || (count as number) < 1) {
    throw new BadOptionError(what, count, expected);
  }
}

function checkPermits(permits: unknown, named = (option: string) => option): void {
  if (permits === 'shared') return;
  checkCount(named('permits'), permits, "a whole number of 1 or more, or 'shared'");
}

/**
 * As what, and by which znode, a process takes part in an election.
 *
 * @publicApi
 */
export interface ElectionOptions extends Pick<CandidateOptions, 'id'> {
  /**
   * The exact znode instead of `<namespace>/elections/<election>`, to share it with a Curator service.
   */
  path?: string;
}

/**
 * What {@link LeaderService.select} takes.
 *
 * @publicApi
 */
export interface SelectOptions
  extends ElectionOptions, Pick<LeaderSelectorOptions, 'autoRequeue' | 'onError'> {}

/**
 * An election that an application takes part in from its start on.
 *
 * @publicApi
 */
export type ElectionAtStart = string | (ElectionOptions & { election: string });

const ELECTION_OPTIONS = ['id', 'path'] satisfies (keyof ElectionOptions)[];
const SELECT_OPTIONS = [
  ...ELECTION_OPTIONS,
  'autoRequeue',
  'onError',
] satisfies (keyof SelectOptions)[];

export function checkElectionOptions(options: unknown): asserts options is ElectionOptions {
  checkKnownOptions('options', options, ELECTION_OPTIONS);
}

export function checkSelectOptions(options: unknown): asserts options is SelectOptions {
  checkKnownOptions('options', options, SELECT_OPTIONS);
}

export function checkElections(elections: unknown): asserts elections is ElectionAtStart[] {
  if (!Array.isArray(elections)) {
    throw new BadOptionError('elections', elections, 'a list of elections');
  }
  const names = new Set<unknown>();
  for (const [index, at] of elections.entries()) {
    const what = `elections[${index}]`;
    if (typeof at !== 'string') checkKnownOptions(what, at, [...ELECTION_OPTIONS, 'election']);
    const election: unknown = typeof at === 'string' ? at : (at as { election: unknown }).election;
    checkKey(election, typeof at === 'string' ? what : `${what}.election`);
    if (names.has(election)) throw new BadOptionError(what, election, 'in the list once');
    names.add(election);
  }
}
