export type { EmbeddedZooKeeperOptions, Faults, FaultScope, Undo } from '../embedded/index.js';
export { TestZooKeeper } from './test-zookeeper.js';
