export {
  explore,
  type ExploreResult,
  type ExploreViolation,
  type FaultPlan,
} from './simulation/explore.js';
export { type ExploredFault, type Moment, standardFaults } from './simulation/standard-faults.js';
export { FakeLocks } from './fake-locks.js';
export { TestZooKeeper } from './test-zookeeper.js';
export type { Link } from './simulation/link.js';
export { ProcessCrashedError, type SimulatedProcess } from './simulation/process.js';
export { Random } from './simulation/random.js';
export type { SimulatedServer } from './simulation/ensemble.js';
export { simulate, SimulationError, type SimulationResult } from './simulation/simulate.js';
export type { SimulatedZnode, TraceEntry, World } from './simulation/world.js';
