import { BadOptionError } from '../client/errors.js';
import {
  checkLeaseOptions,
  checkKnownOptions,
  LEASE_OPTIONS,
  type LeaseOptions,
} from './lease-options.js';

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
