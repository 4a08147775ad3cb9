import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

const source = (file: string) => fileURLToPath(new URL(file, import.meta.url));

// What the user's shell sets for the library, the command line, the sample or Node must not change a test.
for (const name of [
  'NESTJS_ZOOKEEPER_TRANSPORT',
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
// on the server or on the transport:
/** Requests, errors, watches and sessions as the server and the transport handle them. */
const client = ['test/integration/client/**/*.test.ts', 'test/sockets/client/**/*.test.ts'];
/** The recipes, over both transports: the native transport has no transactions, so the recipes send other requests. */
const contracts = [
  'test/integration/recipes/{mutex,non-reentrant-mutex,read-write-lock,semaphore,multi-lock,leader-latch,leader-selector,handover,access-control}.test.ts',
  'test/integration/coordination/*.test.ts',
];
/** Tests of what only a real server does. */
const real = ['test/real/*.test.ts', 'test/real/client/**/*.test.ts'];
/** The embedded server beside the server that it copies. */
const parity = ['test/sockets/embedded/*.test.ts', 'test/real/embedded/*.test.ts'];
/** Tests of the wire transport alone. */
const wireOnly = ['test/real/client/wire-*.test.ts'];

/** Files in virtual time do not need a process each: the state of the library belongs to a simulation. */
const virtualTimeProject = (name: string, include: string[], env: Environment = {}) => ({
  extends: true as const,
  test: {
    name,
    include,
    isolate: false,
    env: { ZK_SERVER: 'simulated', NESTJS_ZOOKEEPER_TRANSPORT: 'wire', ...env },
    sequence: { groupOrder: 0 },
  },
});

/** Files that use sockets and processes, on the embedded server or a real ZooKeeper. */
const realTimeProject = (
  transport: 'native' | 'wire',
  name: string,
  server: 'embedded' | 'real',
  files: { include: string[]; exclude?: string[] },
) => ({
  extends: true as const,
  test: {
    name,
    ...files,
    env: { ZK_SERVER: server, NESTJS_ZOOKEEPER_TRANSPORT: transport },
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
  'test/unit/embedded/{robustness,thread-death,worker-file}.test.ts',
  'test/unit/recipes/diagnostics.test.ts',
  'test/unit/testing/simulation/builtin-modules.test.ts',
  'test/unit/zk-{shutdown,wire-fallback}.test.ts',
];

const faults = ['test/faults/**/*.test.ts'];
const interop = ['test/interop/**/*.test.ts'];
/** Files that run our client beside Curator. The result of the other interop files does not depend on our transport. */
const besideCurator = ['test/interop/{curator,curator-*,leader}.test.ts'];

export default defineConfig({
  resolve: {
    // Tests and the sample import the library by its published name; they must get the one copy in lib/.
    alias: [
      { find: /^nestjs-zookeeper$/, replacement: source('lib/index.ts') },
      {
        find: /^nestjs-zookeeper\/(recipes|coordination|coordination\/recipes|embedded|opentelemetry|terminus|schedule|testing|teaching)$/,
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
      realTimeProject('wire', 'sockets', 'embedded', { include: ['test/sockets/**/*.test.ts'] }),
      realTimeProject('wire', 'e2e', 'embedded', { include: ['test/e2e/**/*.test.ts'] }),
      realTimeProject('wire', 'programs', 'embedded', { include: ['test/programs/**/*.test.ts'] }),
      { extends: true, test: { name: 'browser', include: ['test/browser/**/*.test.ts'] } },
      realTimeProject('native', 'real', 'real', {
        include: [...client, ...contracts, ...real, ...parity],
        exclude: wireOnly,
      }),
      realTimeProject('wire', 'real-wire', 'real', { include: [...client, ...contracts, ...real] }),
      realTimeProject('native', 'faults', 'real', { include: faults }),
      realTimeProject('wire', 'faults-wire', 'real', { include: faults }),
      realTimeProject('native', 'interop', 'real', { include: interop }),
      realTimeProject('wire', 'interop-wire', 'real', { include: besideCurator }),
      realTimeProject('wire', 'interop-embedded', 'embedded', { include: interop }),
    ],
  },
});
