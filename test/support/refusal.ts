import { expect } from 'vitest';
import { BadOptionError, ZkClient } from '../../lib/client/index.js';

/** Returns the error with which a client rejects options. */
export function refusal(options: object): BadOptionError {
  try {
    new ZkClient({ connectString: '127.0.0.1:2181', ...options } as never);
  } catch (error) {
    expect(error).toBeInstanceOf(BadOptionError);
    return error as BadOptionError;
  }
  throw new Error('nothing was refused');
}
