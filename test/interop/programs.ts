import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

/** Python 3 with kazoo. Debian's package serves Debian's Python, which may not be the first one in the PATH. */
export const PYTHON =
  ['python3', '/usr/bin/python3'].find(
    (program) => spawnSync(program, ['-c', 'import kazoo']).status === 0,
  ) ?? 'python3';

/** Takes a connect string and the name of a scenario. Prints `done` at the end. */
export const KAZOO_SCENARIOS = fileURLToPath(new URL('python/kazoo_scenarios.py', import.meta.url));

/** ZooKeeper's own command line. */
export const ZK_CLI = '/usr/share/zookeeper/bin/zkCli.sh';
