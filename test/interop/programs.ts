import { fileURLToPath } from 'node:url';
import { pythonWithKazoo } from '../../scripts/programs.mjs';

/** A Python 3 that has kazoo. */
export const PYTHON = pythonWithKazoo()!;

/** Takes a connect string and the name of a scenario. Prints `done` at the end. */
export const KAZOO_SCENARIOS = fileURLToPath(new URL('python/kazoo_scenarios.py', import.meta.url));

/** ZooKeeper's own command line. */
export const ZK_CLI = '/usr/share/zookeeper/bin/zkCli.sh';
