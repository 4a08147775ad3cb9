export type { EmbeddedZooKeeperOptions, Faults, FaultScope, Undo } from '../embedded/index.js';
export { TestZooKeeper } from './test-zookeeper.js';
export type { Link } from './simulation/link.js';
export type { SimulationOptions } from './simulation/options.js';
export { ProcessCrashedError, type SimulatedProcess } from './simulation/process.js';
export { Random } from './simulation/random.js';
export type { SimulatedServer } from './simulation/server.js';
export { simulate, SimulationError, type SimulationResult } from './simulation/simulate.js';
export type { ProcessOptions, SimulatedZnode, TraceEntry, World } from './simulation/world.js';
