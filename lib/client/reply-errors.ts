import { ErrorCode } from '../protocol/codes.js';
import {
  ConnectionError,
  type CoordinationError,
  NodeError,
  type NodeErrorCode,
  NotAuthorizedError,
  SessionExpiredError,
} from './errors.js';
import { isAnswer } from './session-deadline.js';
import type { Request, RequestKind } from './transport/transport.js';

/** Operations that the server may lack. */
export const CREATE_CONTAINER = 'create the container';
export const CREATE_TTL = 'create with a TTL';
const ADD_WATCH = 'add a persistent watch on';

/** The operations whose names in messages are not those of their requests. */
const OPERATIONS: Readonly<Partial<Record<RequestKind, string>>> = {
  setAcl: 'set the ACL of',
  multi: 'transaction on',
  addWatch: ADD_WATCH,
};

/** Returns the name of a request's operation for a message, which continues with the path. */
export function operationOf(request: Request): string {
  if (request.kind === 'create' && request.ttl !== undefined) return CREATE_TTL;
  return OPERATIONS[request.kind] ?? request.kind;
}

const NODE_ERRORS: ReadonlyMap<number, NodeErrorCode> = new Map([
  [ErrorCode.noNode, 'NO_NODE'],
  [ErrorCode.nodeExists, 'NODE_EXISTS'],
  [ErrorCode.badVersion, 'BAD_VERSION'],
  [ErrorCode.notEmpty, 'NOT_EMPTY'],
  [ErrorCode.noChildrenForEphemerals, 'NO_CHILDREN_FOR_EPHEMERALS'],
  [ErrorCode.invalidAcl, 'INVALID_ACL'],
  [ErrorCode.unimplemented, 'UNIMPLEMENTED'],
]);

/** What the caller can do if the server does not implement an operation. */
const ADVICE: Readonly<Record<string, string>> = {
  [CREATE_CONTAINER]: 'containers need Apache ZooKeeper',
  [CREATE_TTL]:
    'TTLs need Apache ZooKeeper with zookeeper.extendedTypesEnabled=true on each server',
  [ADD_WATCH]: 'persistent watches need Apache ZooKeeper 3.6 or later',
};

/**
 * Returns the error of a request that got a result code other than 0.
 *
 * @param index of the operation in its transaction
 */
export function replyError(
  code: number,
  operation: string,
  path: string,
  index?: number,
): CoordinationError {
  if (code === ErrorCode.unsupported) {
    const advice = "the transport 'native' cannot send this request, use transport: 'wire'";
    return new NodeError('UNIMPLEMENTED', path, ErrorCode.unimplemented, operation, index, advice);
  }
  const request = `${operation} ${path}`;
  const nodeError = NODE_ERRORS.get(code);
  if (nodeError) {
    const isMissingParent = nodeError === 'NO_NODE' && operation.startsWith('create');
    const missingParent = isMissingParent ? 'create its parent first' : undefined;
    const advice = code === ErrorCode.unimplemented ? ADVICE[operation] : missingParent;
    return new NodeError(nodeError, path, code, operation, index, advice);
  }
  switch (code) {
    case ErrorCode.noAuth:
      return new NotAuthorizedError(
        `${request}: the ACL of the znode denies it (${code}); use credentials in auth that the ACL allows`,
        { index },
      );
    case ErrorCode.authFailed:
      return new NotAuthorizedError(
        `${request}: the ensemble refused the credentials in auth (${code})`,
      );
    case ErrorCode.sessionClosedRequireAuth:
      return new NotAuthorizedError(
        `${request}: the server accepts only clients that authenticate (${code}). Set the option sasl, or the option auth if enforce.auth.schemes of the server contains digest`,
      );
    case ErrorCode.sessionExpired:
      return new SessionExpiredError(`${request}: the session expired (${code})`);
    case ErrorCode.sessionMoved:
      return new ConnectionError(`${request}: the session moved to another server (${code})`);
  }
  if (isAnswer(code)) return new NodeError('UNEXPECTED', path, code, operation, index);
  return new ConnectionError(`${request}: the connection was lost before the reply (${code})`, {
    maybeApplied: true,
  });
}

/**
 * Returns the error of the first request on a new connection. A NodeError becomes the cause of a ConnectionError, because
 * the request may succeed on another server.
 */
export function attachmentError(code: number, operation: string, path: string): CoordinationError {
  const cause = replyError(code, operation, path);
  return cause instanceof NodeError ? new ConnectionError(cause.message, { cause }) : cause;
}

/**
 * Returns a ConnectionError for an error that a retry may overcome. For a caller of the client, the end of the
 * session during a request means that the reply was lost: the server may have carried the request out.
 */
export function asConnectionError(error: unknown): ConnectionError | undefined {
  if (error instanceof ConnectionError) return error;
  if (!(error instanceof SessionExpiredError)) return undefined;
  return new ConnectionError(`the reply was lost with its session: ${error.message}`, {
    maybeApplied: true,
    cause: error,
  });
}
