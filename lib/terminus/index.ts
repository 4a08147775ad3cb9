export { ZkHealthIndicator, type ZkHealthOptions } from './zk-health.indicator.js';
