import {
  ConnectionError,
  type CoordinationError,
  errorCode,
  NotAuthorizedError,
  SessionExpiredError,
} from '../errors.js';
import type { Address, ConnectRequest, DownReason } from './transport.js';

/** The error of an attempt that got no connection. */
export function unreachableError({ label, ip }: Address, cause: unknown): ConnectionError {
  return new ConnectionError(`${label}: no connection to ${ip} (${errorCode(cause)})`, { cause });
}

/** The error of an attempt that got a connection, but no session on it. */
export function attachError(
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
