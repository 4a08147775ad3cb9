export { EmbeddedZooKeeper } from './embedded-zookeeper.js';
export type { CutWay, Faults, FaultScope, Undo } from './faults.js';
export type { EmbeddedZooKeeperOptions } from './options.js';
export type { EmbeddedServerKind } from './profiles.js';
