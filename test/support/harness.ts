// Exports the processes, servers and links of scripts/faults to the tests.
export { Child } from '../../scripts/faults/child.js';
export { Ensemble } from '../../scripts/faults/ensemble.js';
export { CURATOR_JARS } from '../../scripts/faults/jars.mjs';
export {
  freePorts,
  RealServer,
  type RealServer as Node,
} from '../../scripts/faults/real-server.mjs';
