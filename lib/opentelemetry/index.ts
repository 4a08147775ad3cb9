export {
  ZookeeperInstrumentation,
  type ZookeeperInstrumentationConfig,
} from './zookeeper-instrumentation.js';
