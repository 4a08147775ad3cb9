export { EmbeddedZooKeeper } from './embedded-zookeeper.js';
export type { EmbeddedZooKeeperOptions } from './options.js';
