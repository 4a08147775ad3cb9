import {
  ConnectionError,
  NodeError,
  NotAuthorizedError,
  SessionExpiredError,
  type CoordinationError,
  type NodeErrorCode,
} from './errors.js';
import type { ConnectRequest, DownReason } from './transport/transport.js';
import { Code } from './transport/transport.js';

const NODE_ERRORS: ReadonlyMap<number, NodeErrorCode> = new Map([
  [Code.NoNode, 'NO_NODE'],
  [Code.NodeExists, 'NODE_EXISTS'],
  [Code.BadVersion, 'BAD_VERSION'],
  [Code.NotEmpty, 'NOT_EMPTY'],
  [Code.NoChildrenForEphemerals, 'NO_CHILDREN_FOR_EPHEMERALS'],
  [Code.InvalidAcl, 'INVALID_ACL'],
]);

/** System errors that a server answers with: not unimplemented, bad arguments, marshalling. */
const SERVER_SYSTEM_ERRORS: readonly number[] = [-5, -6, -8];
/** Closing: what the native client says of requests that were pending when it was closed. */
const CLOSING = -116;

/** Whether a server gave this answer, so that it had the request and the session at that time. */
export function isAnswer(code: number): boolean {
  if (code === Code.Ok || SERVER_SYSTEM_ERRORS.includes(code)) return true;
  return (
    code <= -100 &&
    code !== CLOSING &&
    code !== Code.SessionExpired &&
    code !== Code.AuthFailed &&
    code !== Code.SessionMoved
  );
}

export function replyError(code: number, operation: string, path: string): CoordinationError {
  const what = `${operation} ${path}`;
  const nodeError = NODE_ERRORS.get(code);
  if (nodeError) return new NodeError(nodeError, path, code, operation);
  switch (code) {
    case Code.NoAuth:
      return new NotAuthorizedError(
        `${what}: the ACL of the znode refuses it (${code}); connect with an auth that it names`,
      );
    case Code.AuthFailed:
      return new NotAuthorizedError(
        `${what}: the ensemble refused the credentials in auth (${code})`,
      );
    case Code.SessionExpired:
      return new SessionExpiredError(`${what}: the session expired (${code})`);
    case Code.SessionMoved:
      return new ConnectionError(`${what}: the session moved to another server (${code})`);
  }
  if (isAnswer(code)) return new NodeError('UNEXPECTED', path, code, operation);
  return new ConnectionError(`${what}: the connection was lost before the answer (${code})`, {
    maybeApplied: true,
  });
}

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
