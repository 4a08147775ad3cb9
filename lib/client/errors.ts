/** What a CoordinationError is made of beside its message. */
export interface CoordinationErrorOptions extends ErrorOptions {
  /** The lock, semaphore or election key the error is about, where there is one. */
  key?: string;
}

/**
 * Base of every error this library rejects with. `code` is stable and meant to be switched on;
 * `message` is meant to be read.
 *
 * @publicApi
 */
export abstract class CoordinationError extends Error {
  abstract readonly code: string;
  readonly key: string | undefined;

  constructor(message: string, { key, ...options }: CoordinationErrorOptions = {}) {
    super(message, options);
    this.name = new.target.name;
    this.key = key;
  }
}

/**
 * An option or argument that cannot be meant: the message names it and the value it had.
 *
 * @publicApi
 */
export class BadOptionError extends CoordinationError {
  readonly code = 'BAD_OPTION';

  constructor(
    readonly option: string,
    readonly value: unknown,
    expected: string,
    options?: CoordinationErrorOptions,
  ) {
    super(`${option} must be ${expected}, but is ${describe(value)}`, options);
  }
}

/**
 * No server answered within the retry policy, or the connection broke under a request.
 *
 * @publicApi
 */
export class ConnectionError extends CoordinationError {
  readonly code = 'CONNECTION';
  /** True where the request had left and its reply was lost: the server may have carried it out. */
  readonly maybeApplied: boolean;

  constructor(
    message: string,
    {
      maybeApplied = false,
      ...options
    }: CoordinationErrorOptions & { maybeApplied?: boolean } = {},
  ) {
    super(message, options);
    this.maybeApplied = maybeApplied;
  }
}

/**
 * The session ended: the ensemble expired it, or this client's own clock could no longer vouch for it.
 *
 * @publicApi
 */
export class SessionExpiredError extends CoordinationError {
  readonly code = 'SESSION_EXPIRED';
}

/**
 * The ACL of a znode refuses this client, or the ensemble refused its credentials.
 *
 * @publicApi
 */
export class NotAuthorizedError extends CoordinationError {
  readonly code = 'NOT_AUTHORIZED';
}

/**
 * The client was closed, or the application is shutting down.
 *
 * @publicApi
 */
export class ShuttingDownError extends CoordinationError {
  readonly code = 'SHUTTING_DOWN';
}

/**
 * What a caller's AbortSignal turned a wait into; `cause` is the signal's reason.
 *
 * @publicApi
 */
export class WaitCancelledError extends CoordinationError {
  readonly code = 'CANCELLED';
}

/** Why ZooKeeper refused an operation, by the names of its own codes. */
export type NodeErrorCode =
  | 'NO_NODE'
  | 'NODE_EXISTS'
  | 'BAD_VERSION'
  | 'NOT_EMPTY'
  | 'NO_CHILDREN_FOR_EPHEMERALS'
  | 'INVALID_ACL'
  | 'UNEXPECTED';

/**
 * ZooKeeper refused an operation for the state of a znode. `code` says why, `serverCode` is
 * ZooKeeper's own number (-101 for NO_NODE and so on).
 *
 * @publicApi
 */
export class NodeError extends CoordinationError {
  constructor(
    readonly code: NodeErrorCode,
    readonly path: string,
    readonly serverCode: number,
    operation: string,
  ) {
    super(`${operation} ${path}: ${code.toLowerCase().replaceAll('_', ' ')} (${serverCode})`);
  }
}

/** Characters of a value that a message shows: whoever sends a long one must not fill the logs with it. */
const MOST_SHOWN = 200;

function describe(value: unknown): string {
  if (typeof value === 'string') return shortened(value, JSON.stringify);
  if (typeof value === 'bigint') return shortened(`${value}n`);
  if (typeof value === 'function') return shortened(`function ${value.name || '(anonymous)'}`);
  if (Array.isArray(value)) return `an array of ${value.length}`;
  if (typeof value === 'object' && value !== null) return `an object`;
  return shortened(String(value));
}

function shortened(text: string, quoted: (text: string) => string = String): string {
  if (text.length <= MOST_SHOWN) return quoted(text);
  return `${quoted(`${text.slice(0, MOST_SHOWN)}…`)} (${text.length} characters)`;
}
