import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/**
 * Python 3 with kazoo, if it is installed. Debian's package serves Debian's Python, which may not be the first one in
 * the PATH.
 */
export const PYTHON = ['python3', '/usr/bin/python3'].find(
  (program) => spawnSync(program, ['-c', 'import kazoo']).status === 0,
);
if (!PYTHON) {
  console.log('Left out: the interop tests with kazoo (no Python 3 with kazoo was found).');
}

/** Takes a connect string and the name of a scenario. Prints `done` at the end. */
export const KAZOO_SCENARIOS = fileURLToPath(new URL('python/kazoo_scenarios.py', import.meta.url));

const PROGRAM = '/usr/share/zookeeper/bin/zkCli.sh';

/** ZooKeeper's own command line, if it and Java are installed. */
export const ZK_CLI =
  existsSync(PROGRAM) && spawnSync('java', ['-version']).status === 0 ? PROGRAM : undefined;
if (!ZK_CLI) {
  console.log(
    'Left out: the interop tests with zkCli.sh (no Java, or no Debian package "zookeeper").',
  );
}
