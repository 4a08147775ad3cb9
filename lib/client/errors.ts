import { types } from 'node:util';

/** The options of a CoordinationError. */
export interface CoordinationErrorOptions {
  /** The error that caused this one. */
  cause?: unknown | undefined;
  /** The key of the lock, semaphore or election that the error is about, if any. */
  key?: string | undefined;
}

/**
 * The base class of the errors of this library. Programs test `code`, which is stable; `message` is for people.
 *
 * @publicApi
 */
export abstract class CoordinationError extends Error {
  abstract readonly code: string;
  readonly key: string | undefined;

  constructor(message: string, { key, ...options }: CoordinationErrorOptions = {}) {
    // The message may contain keys, names and data of znodes, and replies, which other clients or servers wrote.
    super(foreignText(message, MAX_MESSAGE), options);
    this.name = new.target.name;
    this.key = key;
  }
}

/**
 * An option or argument is invalid. The message names it and its value, unless that may be a secret.
 * Cause: an option has the wrong type or is out of range, is unknown, or contradicts another option.
 * Remedy: correct the value that the message names. If it comes from an environment variable, check that the variable
 * is set.
 *
 * @publicApi
 */
export class BadOptionError extends CoordinationError {
  readonly code: 'BAD_OPTION' | 'BAD_KEY' = 'BAD_OPTION';
  /** Not enumerable, so that loggers print only its short description in the message: it may be the body of a request. */
  declare readonly value: unknown;

  constructor(
    readonly option: string,
    value: unknown,
    /** The value that is expected, or the whole message. */
    expected: string | { readonly message: string },
    options?: CoordinationErrorOptions,
  ) {
    super(
      typeof expected === 'object'
        ? expected.message
        : `${option} must be ${expected}, but is ${describe(value)}`,
      options,
    );
    Object.defineProperty(this, 'value', { value });
  }
}

/**
 * The key of a lock or a semaphore, or the name of an election, is missing, empty, too long or contains NUL, or a list of
 * keys is empty, has more than 100 keys or contains a key twice. A handler answers it with 400, because keys are usually
 * made from requests. A key of another type than string is a BadOptionError.
 * Cause: the value of a request from which the key is made is missing, empty or too long, or the list of a request is too
 * long or contains a value twice.
 * Remedy: validate the request before the lock is acquired, or correct the function that makes the key.
 *
 * @publicApi
 */
export class BadKeyError extends BadOptionError {
  override readonly code = 'BAD_KEY';
}

/**
 * No server replied within the retry policy, or the connection broke before a request got a reply.
 * Cause: the address is wrong, no server runs there, the network is broken, or the ensemble has no majority.
 * Remedy: check `connectString` and the servers, and try again. After a write with `maybeApplied: true`, read the znode
 * before you repeat the write.
 *
 * @publicApi
 */
export class ConnectionError extends CoordinationError {
  readonly code = 'CONNECTION';
  /** True if the request was sent and its reply was lost: the server may have carried it out. */
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
 * The session ended: the ensemble expired it, or this client had no reply for so long that it may have.
 * Cause: the process was paused, or its connection was lost, for about as long as the session timeout.
 * Remedy: call again, because the client connects with a new session. If such pauses are normal, raise
 * `sessionTimeout`.
 *
 * @publicApi
 */
export class SessionExpiredError extends CoordinationError {
  readonly code = 'SESSION_EXPIRED';
}

/**
 * The ACL of a znode denies the operation, or the ensemble refused the client's credentials.
 * Cause: the option `auth` is missing or has other credentials than the ACL of the znode names, or the ACL lacks a
 * right. Or the servers refuse the credentials in `sasl`, or require the option.
 * Remedy: give all clients the same `auth`, `sasl` and `acl`, or correct the ACL of the znode that the message names. If
 * the message is about SASL, it says what to correct.
 *
 * @publicApi
 */
export class NotAuthorizedError extends CoordinationError {
  readonly code = 'NOT_AUTHORIZED';
  /** The index of the operation of a transaction that the server refused. */
  readonly index: number | undefined;

  constructor(
    message: string,
    { index, ...options }: CoordinationErrorOptions & { index?: number | undefined } = {},
  ) {
    super(message, options);
    this.index = index;
  }
}

/**
 * Fencing tokens would be unsafe on the servers.
 * Cause: the servers are RaftKeeper, whose transaction ids may fall, or ClickHouse Keeper before 23.6, which the client cannot
 * distinguish from RaftKeeper.
 * Remedy: use Apache ZooKeeper or a current ClickHouse Keeper. If no resource checks fencing tokens, set
 * `allowUnsafeFencing: true`.
 *
 * @publicApi
 */
export class UnsafeServerError extends CoordinationError {
  readonly code = 'UNSAFE_SERVER';

  /** @param server `host:port` */
  constructor(server: string) {
    super(
      `${server} is RaftKeeper, whose transaction ids may fall, or ClickHouse Keeper before 23.6, which looks the same: fencing tokens could be unsafe; use Apache ZooKeeper or a current ClickHouse Keeper, or set allowUnsafeFencing: true if no resource checks fencing tokens`,
    );
  }
}

/**
 * The client was closed, or the application is shutting down.
 * Cause: the call began, or was waiting, when the client was closed or the application began to shut down.
 * Remedy: do not repeat the call in this process. The caller can repeat its request on another instance.
 *
 * @publicApi
 */
export class ShuttingDownError extends CoordinationError {
  readonly code = 'SHUTTING_DOWN';
}

/**
 * An AbortSignal of the caller cancelled a wait. `cause` is the signal's reason.
 * Cause: the caller's code aborted its signal, or the HTTP client of a handler disconnected during the wait.
 * Remedy: none, because nobody waits for the result any more.
 *
 * @publicApi
 */
export class WaitCancelledError extends CoordinationError {
  readonly code = 'CANCELLED';
}

/** The names of ZooKeeper's error codes; UNEXPECTED stands for all others. */
export type NodeErrorCode =
  | 'NO_NODE'
  | 'NODE_EXISTS'
  | 'BAD_VERSION'
  | 'NOT_EMPTY'
  | 'NO_CHILDREN_FOR_EPHEMERALS'
  | 'INVALID_ACL'
  | 'UNIMPLEMENTED'
  | 'UNEXPECTED';

/**
 * ZooKeeper refused an operation on a znode. `code` is the reason, `serverCode` is ZooKeeper's number
 * for it (-101 for NO_NODE). UNIMPLEMENTED means that the server or the transport lacks a feature, which the message
 * names.
 * Cause: the znode does not exist or exists already, has another version, has children, or has an ACL that is not
 * valid; or the server is too old, or does not enable what the message names; or `transport: 'native'` cannot send the
 * request.
 * Remedy: decide by `code` in the code that called the client. The recipes handle these codes themselves.
 *
 * @publicApi
 */
export class NodeError extends CoordinationError {
  constructor(
    readonly code: NodeErrorCode,
    readonly path: string,
    readonly serverCode: number,
    operation: string,
    /** In a transaction, the index of the operation that failed. */
    readonly index?: number,
    /** What the caller can do. */
    advice?: string,
  ) {
    const reason = `${code.toLowerCase().replaceAll('_', ' ')} (${serverCode})`;
    const which = index === undefined ? '' : `operations[${index}]: `;
    super(`${which}${operation} ${path}: ${reason}${advice ? `; ${advice}` : ''}`);
  }
}

/** How many characters of a value a message shows, so that a long value does not fill the logs. */
const MAX_SHOWN = 200;
/** The maximum length of a message, in characters. */
const MAX_MESSAGE = 8000;

function describe(value: unknown): string {
  if (typeof value === 'string') return shortened(value, JSON.stringify);
  if (typeof value === 'bigint') return shortened(`${value}n`);
  if (typeof value === 'function') return shortened(`function ${value.name || '(anonymous)'}`);
  if (Array.isArray(value)) return `an array of ${value.length}`;
  if (typeof value === 'object' && value !== null) return `an object`;
  return shortened(String(value));
}

function shortened(text: string, quoted: (text: string) => string = String): string {
  if (text.length <= MAX_SHOWN) return quoted(text);
  return `${quoted(`${text.slice(0, MAX_SHOWN)}…`)} (${text.length} characters)`;
}

export function isCode(error: unknown, code: NodeErrorCode): boolean {
  return error instanceof NodeError && error.code === code;
}

/** Resolves to undefined if the server replies that the znode does not exist. */
export async function ifExists<T>(reply: Promise<T>): Promise<T | undefined> {
  try {
    return await reply;
  } catch (error) {
    if (isCode(error, 'NO_NODE')) return undefined;
    throw error;
  }
}

/** Also true for an error of another realm, such as those of Node's modules in Jest. */
export function isError(value: unknown): value is Error {
  return value instanceof Error || types.isNativeError(value);
}

/** Returns the text of a thrown value, which is not always an Error. */
export function textOf(thrown: unknown): string {
  try {
    return String(thrown);
  } catch {
    // An object without a prototype cannot be converted to a string.
    return Object.prototype.toString.call(thrown);
  }
}

/**
 * Returns a value that another client may have written as text for a log, a message or a terminal: in one line, short, and
 * without control characters and invisible ones, which could forge lines or move the cursor.
 *
 * @param limit the maximum number of characters
 */
export function foreignText(value: unknown, limit = MAX_SHOWN): string {
  const text = textOf(value);
  return (text.length > limit ? `${text.slice(0, limit)}…` : text).replace(
    /[\p{C}\p{Zl}\p{Zp}\p{DI}]/gu,
    (character) => (character === '\n' ? ' ' : '?'),
  );
}

/** Returns a key in quotation marks, as {@link foreignText}: keys are often made from requests. */
export const quotedKey = (key: string): string => `"${foreignText(key)}"`;

/** Returns the code of a system error, such as `ECONNREFUSED`. */
export function errorCode(error: unknown): string {
  return (error as NodeJS.ErrnoException).code ?? String(error);
}
