import type { LiveSession } from './live-session.js';
import { asConnectionError } from './reply-errors.js';
import type { RetryFunction } from './retry.js';
import { elapsed, instant } from './session-deadline.js';
import type { SessionManager } from './session-manager.js';
import { sleep } from './sleep.js';

/**
 * Runs an operation in the current session, and after a connection failure again, as the retry policy allows.
 *
 * @param repeatable whether it may be repeated even if an earlier attempt was applied
 */
export async function retryOperation<T>(
  sessions: SessionManager,
  retry: RetryFunction,
  operation: (session: LiveSession) => Promise<T>,
  repeatable: boolean,
): Promise<T> {
  const since = instant();
  for (let attempt = 1; ; attempt++) {
    const session = await sessions.session();
    try {
      return await operation(session);
    } catch (error) {
      const failure = asConnectionError(error);
      if (!failure || (failure.maybeApplied && !repeatable)) throw failure ?? error;
      const delay = retry(attempt, elapsed(since));
      if (delay === undefined) throw failure;
      await sleep(delay, { signals: [sessions.stopping] });
    }
  }
}
