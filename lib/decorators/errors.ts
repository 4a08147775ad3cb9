import { CoordinationError } from '../client/errors.js';

/**
 * A decorator stands where it cannot do what it says. The message names the method and tells what to
 * change; nothing was run without its lock.
 *
 * @publicApi
 */
export class MisuseError extends CoordinationError {
  readonly code = 'MISUSE';
}
