// Exports the processes, servers and links of scripts/faults to the tests.
export { Child } from '../../scripts/faults/child.js';
export { Ensemble } from '../../scripts/faults/ensemble.js';
export { CURATOR_JARS, missingJar, ZOOKEEPER_JARS } from '../../scripts/faults/jars.mjs';
/** Forwards connections in the calling thread, so no native client of this process may use it. */
export { Link as PlainLink } from '../../scripts/faults/link.mjs';
export {
  freePorts,
  RealServer,
  type RealServer as Node,
} from '../../scripts/faults/real-server.mjs';
