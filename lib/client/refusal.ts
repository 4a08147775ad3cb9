import {
  ConnectionError,
  type CoordinationError,
  NotAuthorizedError,
  SessionExpiredError,
} from './errors.js';
import type { ConnectRequest, DownReason } from './transport.js';

/** What an attempt to attach a session failed with. */
export function refusalOf(
  { address: { label }, credentials }: ConnectRequest,
  reason: DownReason,
  why: string,
  cause?: Error,
): CoordinationError {
  if (reason === 'unauthorized') {
    return new NotAuthorizedError(`${label} refused the credentials in auth`);
  }
  if (reason === 'expired' && credentials) {
    return new SessionExpiredError(`session ${credentials.id} is over: ${label} does not know it`);
  }
  return new ConnectionError(`${label} did not attach a session: ${why}`, { cause });
}
