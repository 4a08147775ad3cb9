export type { StateChange } from './connection-state.js';
export {
  BadKeyError,
  BadOptionError,
  ConnectionError,
  CoordinationError,
  type CoordinationErrorOptions,
  NodeError,
  type NodeErrorCode,
  NotAuthorizedError,
  SessionExpiredError,
  ShuttingDownError,
  UnsafeServerError,
  WaitCancelledError,
} from './errors.js';
export type { ConnectionPolicy, ZkClientOptions } from './options.js';
export type { RetryFunction, RetryPolicy } from './retry.js';
export type { ServerKind } from './server-kind.js';
export type { Session } from './session.js';
export type { TransactionOperation, TransactionResults } from './transaction.js';
export type { TransportName } from './transport/transports.js';
export type { DigestMd5Options, GssapiOptions, SaslOptions } from './transport/sasl/options.js';
export type { TlsOptions } from './transport/tls.js';
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
export { type ConnectionMessage, type DeleteRefusedMessage, ZkClient } from './zk-client.js';
