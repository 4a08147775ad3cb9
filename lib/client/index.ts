export type { ServerKind } from './connector.js';
export {
  BadKeyError,
  BadOptionError,
  ConnectionError,
  CoordinationError,
  type CoordinationErrorOptions,
  foreignText,
  ifExists,
  isCode,
  isError,
  NodeError,
  type NodeErrorCode,
  NotAuthorizedError,
  quotedKey,
  SessionExpiredError,
  ShuttingDownError,
  textOf,
  UnsafeServerError,
  WaitCancelledError,
} from './errors.js';
export { resolveHost } from './hosts.js';
export { callListener, captureContext, detached, Listeners, warn } from './listeners.js';
export {
  type ConnectionPolicy,
  type NormalizedOptions,
  normalizeOptions,
  type RetryFunction,
  type RetryPolicy,
  toRetryFunction,
  type TransportName,
  type ZkClientOptions,
} from './options.js';
export { isRunning, separateProcesses } from './process-state.js';
export type { Session } from './session.js';
export type { StateChange } from './session-manager.js';
export {
  abortable,
  abortedAfter,
  isAbortBy,
  MAX_TIMER,
  onAbort,
  sleep,
  untilAborted,
  whenSettled,
} from './sleep.js';
export {
  checkTransaction,
  type TransactionOperation,
  type TransactionResults,
} from './transaction.js';
export type { DigestMd5Options, GssapiOptions, SaslOptions } from './transport/sasl/options.js';
export { openTls, type TlsOptions } from './transport/tls.js';
export type { Address } from './transport/transport.js';
export type { ByteStream } from './transport/wire-connection.js';
export { connectWire } from './transport/wire-transport.js';
export type {
  Acl,
  Auth,
  ConnectionState,
  CreateMode,
  CreateOptions,
  PersistentWatch,
  Stat,
  Watch,
  WatchEvent,
  WatchNotification,
} from './types.js';
export {
  ABORT_SIGNAL,
  BOOLEAN,
  checkBelowRoot,
  checkCreateOptions,
  checkData,
  checkFunction,
  checkOptions,
  checkPath,
  checkRecord,
  checkRequest,
  checkValue,
  FUNCTION,
  isRecord,
  MAX_REQUEST,
  milliseconds,
  oneOf,
  parentOf,
  rule,
  type Rules,
  UNCHECKED,
  uncheckedRules,
  wholeNumber,
} from './validation.js';
export { type ConnectionMessage, type DeleteRefusedMessage, ZkClient } from './zk-client.js';
