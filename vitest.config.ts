import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

const source = (file: string) => fileURLToPath(new URL(file, import.meta.url));

type Environment = Record<string, string>;

// The projects on a real ZooKeeper need a JVM, so `npm test` does not run them. They run the files whose result depends
// on the server or on the transport:
/** Requests, errors, watches and sessions as the server and the transport handle them. */
const client = ['test/integration/client/**/*.test.ts', 'test/sockets/client/**/*.test.ts'];
/** Each recipe once. The native transport has no transactions, so its recipes send other requests. */
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
const simulated = (name: string, include: string[], env: Environment = {}) => ({
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
const over = (
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

/** The tests that ask which features their server has. */
const dependOnServerKind = readdirSync('test/integration', { recursive: true, encoding: 'utf8' })
  .map((file) => `test/integration/${file}`)
  .filter((file) => file.endsWith('.test.ts') && readFileSync(file, 'utf8').includes('serverHas'));

/** The unit tests that replace modules, or that depend on what other files have left in the process. */
const isolated = [
  'test/unit/embedded/{robustness,thread-death,worker-file}.test.ts',
  'test/unit/recipes/diagnostics.test.ts',
  'test/unit/testing/simulation/builtin-modules.test.ts',
  'test/unit/zk-{shutdown,wire-fallback}.test.ts',
];

const faults = ['test/faults/**/*.test.ts'];
const interop = ['test/interop/**/*.test.ts'];
/** Files that run our client beside Curator's. The other interop files run foreign clients on the embedded server. */
const besideCurator = [
  'test/interop/curator.test.ts',
  'test/interop/curator-coordination.test.ts',
  'test/interop/curator-queues.test.ts',
  'test/interop/leader.test.ts',
];

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
      simulated('integration', ['test/integration/**/*.test.ts']),
      simulated('keeper', dependOnServerKind, { ZK_PROFILE: 'clickhouse-keeper' }),
      over('wire', 'sockets', 'embedded', { include: ['test/sockets/**/*.test.ts'] }),
      over('wire', 'e2e', 'embedded', { include: ['test/e2e/**/*.test.ts'] }),
      over('wire', 'programs', 'embedded', { include: ['test/programs/**/*.test.ts'] }),
      { extends: true, test: { name: 'browser', include: ['test/browser/**/*.test.ts'] } },
      over('native', 'real', 'real', {
        include: [...client, ...contracts, ...real, ...parity],
        exclude: wireOnly,
      }),
      over('wire', 'real-wire', 'real', { include: [...client, ...contracts, ...real] }),
      over('native', 'faults', 'real', { include: faults }),
      over('wire', 'faults-wire', 'real', { include: faults }),
      over('native', 'interop', 'real', { include: interop }),
      over('wire', 'interop-wire', 'real', { include: besideCurator }),
      over('wire', 'interop-embedded', 'embedded', { include: interop }),
    ],
  },
});
