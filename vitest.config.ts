import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

const source = (file: string) => fileURLToPath(new URL(file, import.meta.url));

// What the user's shell sets for the library, the command line, the sample or Node must not change a test.
for (const name of [
  'ZK_CONNECT_STRING',
  'ZOOKEEPER',
  'ZOOKEEPER_AUTH',
  'HOST',
  'PORT',
  'DATABASE',
  'PAY_WITHIN',
  'FORCE_COLOR',
  'NODE_OPTIONS',
  'NODE_DEBUG',
  'ZK_PROFILE',
]) {
  delete process.env[name];
}

type Environment = Record<string, string>;

// The projects on a real ZooKeeper need a JVM, so `npm test` does not run them. They run the files whose result depends
// on the server. Locks, semaphores, elections and sessions also run over the native transport.
/** Requests, errors, watches and sessions as the server and the transport handle them. */
const client = ['test/integration/client/**/*.test.ts', 'test/sockets/client/**/*.test.ts'];
const locksAndElections = [
  'test/integration/recipes/{mutex,non-reentrant-mutex,read-write-lock,semaphore,multi-lock,leader-latch,leader-selector,handover,access-control}.test.ts',
];
const coordination = ['test/integration/coordination/*.test.ts'];
/** Tests of what only a real server does. */
const real = ['test/real/*.test.ts', 'test/real/client/**/*.test.ts'];
/** The embedded server beside the server that it copies. */
const parity = ['test/sockets/embedded/*.test.ts', 'test/real/embedded/*.test.ts'];
/** What the native transport cannot do. */
const wireOnly = [
  'test/integration/client/{transactions,persistent-watches,watch-removal}.test.ts',
  'test/real/client/wire-*.test.ts',
];

/** Files in virtual time do not need a process each: the state of the library belongs to a simulation. */
const virtualTimeProject = (name: string, include: string[], env: Environment = {}) => ({
  extends: true as const,
  test: {
    name,
    include,
    isolate: false,
    env: { ZK_SERVER: 'simulated', ...env },
    sequence: { groupOrder: 0 },
  },
});

/** Files that use sockets and processes, on the embedded server or a real ZooKeeper. */
const realTimeProject = (
  name: string,
  server: 'embedded' | 'real',
  files: { include: string[]; exclude?: string[] },
  transport: 'wire' | 'native' = 'wire',
) => ({
  extends: true as const,
  test: {
    name,
    ...files,
    env: { ZK_SERVER: server, ZK_TRANSPORT: transport },
    globalSetup: server === 'real' ? ['test/support/shared-servers.ts'] : [],
    // A crash of the native client ends only the tests of one file.
    isolate: transport === 'native',
    // These tests wait for sockets and processes most of the time.
    maxWorkers: 4,
    sequence: { groupOrder: 1 },
  },
});

/** Tests that ask which features their server has. They also run on a simulated ClickHouse Keeper, which lacks some. */
const keeper = readdirSync(source('test/integration'), { recursive: true, encoding: 'utf8' })
  .map((file) => `test/integration/${file}`)
  .filter((file) => file.endsWith('.test.ts'))
  .filter((file) => readFileSync(source(file), 'utf8').includes('serverHas'));

/** The unit tests that replace modules, or that depend on what other files have left in the process. */
const isolated = [
  'test/unit/embedded/{robustness,thread-death,thread-port,worker-file}.test.ts',
  'test/unit/client/resolve-host.test.ts',
  'test/unit/kernel/{delayed-watches,diagnostics}.test.ts',
  'test/unit/testing/simulation/builtin-modules.test.ts',
  'test/unit/zk-shutdown.test.ts',
];

const faults = ['test/faults/**/*.test.ts'];
const interop = ['test/interop/**/*.test.ts'];
/** Locks, semaphores and elections beside Curator. */
const besideCurator = ['test/interop/{curator,curator-known-bugs,leader}.test.ts'];

export default defineConfig({
  resolve: {
    // Tests and the sample import the library by its published name; they must get the one copy in lib/.
    alias: [
      { find: /^nestjs-zookeeper$/, replacement: source('lib/index.ts') },
      {
        find: /^nestjs-zookeeper\/(recipes|coordination|embedded|opentelemetry|terminus|schedule|fence|testing)$/,
        replacement: source('lib/$1/index.ts'),
      },
    ],
  },
  test: {
    // The native client cannot live in worker threads, and the simulator cannot replace the timers of vm contexts.
    pool: 'forks',
    // The projects share the transformed modules: otherwise each project transforms the library again.
    experimental: { fsModuleCache: true },
    maxWorkers: 2,
    // Generous limits: a test waits for an event, and the machine may be busy.
    expect: { poll: { timeout: 60_000 } },
    testTimeout: 180_000,
    hookTimeout: 180_000,
    projects: [
      {
        extends: true,
        test: {
          name: 'unit',
          include: ['test/unit/**/*.test.ts'],
          exclude: isolated,
          isolate: false,
        },
      },
      { extends: true, test: { name: 'unit-isolated', include: isolated } },
      virtualTimeProject('integration', ['test/integration/**/*.test.ts']),
      virtualTimeProject('keeper', keeper, { ZK_PROFILE: 'clickhouse-keeper' }),
      realTimeProject('sockets', 'embedded', { include: ['test/sockets/**/*.test.ts'] }),
      realTimeProject('e2e', 'embedded', { include: ['test/e2e/**/*.test.ts'] }),
      realTimeProject('programs', 'embedded', { include: ['test/programs/**/*.test.ts'] }),
      realTimeProject('databases', 'embedded', { include: ['test/databases/**/*.test.ts'] }),
      { extends: true, test: { name: 'browser', include: ['test/browser/**/*.test.ts'] } },
      realTimeProject('real', 'real', {
        include: [...client, ...locksAndElections, ...coordination, ...real],
      }),
      realTimeProject('parity', 'real', { include: parity }),
      realTimeProject('faults', 'real', { include: faults }),
      realTimeProject('interop', 'real', { include: interop }),
      realTimeProject('interop-embedded', 'embedded', { include: interop }),
      realTimeProject(
        'real-native',
        'real',
        { include: [...client, ...locksAndElections, ...real], exclude: wireOnly },
        'native',
      ),
      realTimeProject(
        'faults-native',
        'real',
        { include: ['test/faults/{ensemble,partition}.test.ts'] },
        'native',
      ),
      realTimeProject('interop-native', 'real', { include: besideCurator }, 'native'),
    ],
  },
});
