export { EmbeddedZooKeeper } from './embedded-zookeeper.js';
export { Faults } from './faults.js';
export type { EmbeddedZooKeeperOptions } from './options.js';
export type { EmbeddedServerKind } from './profiles.js';
