import { BadOptionError } from '../client/errors.js';
import type { AcquireOptions } from '../recipes/index.js';

/** @publicApi */
export interface LockOptions extends AcquireOptions {
  /**
   * The exact znode of the lock instead of `<namespace>/locks/<key>`, to share it with a Curator
   * service. An absolute path, outside of the namespace unless it says so itself.
   */
  path?: string;
  /** False refuses to take a lock again that this call chain holds already. Default true. */
  reentrant?: boolean;
}

/**
 * What a connection's locks do where the call does not say.
 *
 * @publicApi
 */
export interface LockDefaults {
  /** Milliseconds to wait while others hold the lock; 0 only tries. Default Infinity. */
  wait?: number;
}

const LOCK_OPTIONS = ['wait', 'signal', 'path', 'reentrant'] satisfies (keyof LockOptions)[];

export function checkLockOptions(options: unknown): asserts options is LockOptions {
  checkOptions('options', options, LOCK_OPTIONS);
  const { reentrant } = options as LockOptions;
  if (reentrant !== undefined && typeof reentrant !== 'boolean') {
    throw new BadOptionError('reentrant', reentrant, 'true or false');
  }
}

/** Checks that `options` is an object of no other properties than the known ones: a typo is an error. */
export function checkOptions(what: string, options: unknown, known: readonly string[]): void {
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

export function checkWait(what: string, wait: unknown): asserts wait is number | undefined {
  if (wait !== undefined && !(typeof wait === 'number' && wait >= 0)) {
    throw new BadOptionError(what, wait, '0 or more milliseconds, or Infinity');
  }
}
