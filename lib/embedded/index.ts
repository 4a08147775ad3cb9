export type { CutWay } from './active-faults.js';
export { EmbeddedZooKeeper } from './embedded-zookeeper.js';
export type { Faults, FaultScope, Undo } from './faults.js';
export type { EmbeddedZooKeeperOptions } from './options.js';
