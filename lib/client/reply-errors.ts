import {
  ConnectionError,
  type CoordinationError,
  NodeError,
  type NodeErrorCode,
  NotAuthorizedError,
  SessionExpiredError,
} from './errors.js';
import { isAnswer } from './session-deadline.js';
import { Code } from './transport/transport.js';

const NODE_ERRORS: ReadonlyMap<number, NodeErrorCode> = new Map([
  [Code.NoNode, 'NO_NODE'],
  [Code.NodeExists, 'NODE_EXISTS'],
  [Code.BadVersion, 'BAD_VERSION'],
  [Code.NotEmpty, 'NOT_EMPTY'],
  [Code.NoChildrenForEphemerals, 'NO_CHILDREN_FOR_EPHEMERALS'],
  [Code.InvalidAcl, 'INVALID_ACL'],
]);

/** Returns the error of a request that got a result code other than 0. */
export function replyError(code: number, operation: string, path: string): CoordinationError {
  const request = `${operation} ${path}`;
  const nodeError = NODE_ERRORS.get(code);
  if (nodeError) return new NodeError(nodeError, path, code, operation);
  switch (code) {
    case Code.NoAuth:
      return new NotAuthorizedError(
        `${request}: the ACL of the znode denies it (${code}); use credentials in auth that the ACL allows`,
      );
    case Code.AuthFailed:
      return new NotAuthorizedError(
        `${request}: the ensemble refused the credentials in auth (${code})`,
      );
    case Code.SessionExpired:
      return new SessionExpiredError(`${request}: the session expired (${code})`);
    case Code.SessionMoved:
      return new ConnectionError(`${request}: the session moved to another server (${code})`);
  }
  if (isAnswer(code)) return new NodeError('UNEXPECTED', path, code, operation);
  return new ConnectionError(`${request}: the connection was lost before the answer (${code})`, {
    maybeApplied: true,
  });
}
