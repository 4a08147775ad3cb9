export type { EmbeddedZooKeeperOptions, Faults, FaultScope, Undo } from '../embedded/index.js';
export { TestZooKeeper } from './test-zookeeper.js';
export { Link } from './simulation/link.js';
export type { SimulationOptions } from './simulation/options.js';
export { ProcessCrashedError, SimulatedProcess } from './simulation/process.js';
export { Random } from './simulation/random.js';
export { SimulatedServer } from './simulation/server.js';
export { simulate, SimulationError, type SimulationResult } from './simulation/simulate.js';
export {
  type ProcessOptions,
  type SimulatedZnode,
  type TraceEntry,
  World,
} from './simulation/world.js';
