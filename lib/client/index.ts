export * from './errors.js';
export type { ConnectionPolicy, ZkClientOptions } from './options.js';
export type { RetryFunction, RetryPolicy } from './retry.js';
export type { Session } from './session.js';
export type { StateChange } from './state-machine.js';
export type { TlsOptions } from './tls.js';
export type { TransportName } from './transports.js';
export type { Acl, Auth, ConnectionState, CreateMode, Stat, Watch, WatchEvent } from './types.js';
export { ZkClient } from './zk-client.js';
