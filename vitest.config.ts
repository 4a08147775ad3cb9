import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

const source = (file: string) => fileURLToPath(new URL(file, import.meta.url));

/** Files of these projects mostly wait for a server or a clock: more of them run at a time than there are cores. */
const waiting = { maxWorkers: 4, sequence: { groupOrder: 0 } };
/** Files of these projects start processes that keep the cores busy. They run after the others. */
const busy = { maxWorkers: 2, sequence: { groupOrder: 1 } };

// An integration file runs on the embedded server or a real ZooKeeper, over the native or the wire transport.
// test/support/servers.ts reads ZK_SERVER; a client without the option `transport` reads the other variable.
// scripts/test.mjs chooses which of these projects run a file.
const over = (
  transport: 'native' | 'wire',
  name: string,
  server: 'embedded' | 'real',
  files: { include: string[]; exclude?: string[] },
) => ({
  extends: true as const,
  test: {
    name,
    ...waiting,
    ...files,
    env: { ZK_SERVER: server, NESTJS_ZOOKEEPER_TRANSPORT: transport },
    globalSetup: server === 'real' ? ['test/support/shared-servers.ts'] : [],
  },
});

// The recipes on the embedded server, with the behaviour of another server; test/support/servers.ts reads ZK_PROFILE.
const copying = (server: 'clickhouse-keeper' | 'raftkeeper') => {
  const project = over('wire', server, 'embedded', { include: recipes });
  return {
    ...project,
    test: { ...project.test, env: { ...project.test.env, ZK_PROFILE: server } },
  };
};

const recipes = ['test/integration/{recipes,coordination}/**/*.test.ts'];
const integration = ['test/integration/**/*.test.ts'];
const faults = ['test/faults/**/*.test.ts'];
const interop = ['test/interop/**/*.test.ts'];
/** Tests of the wire transport alone. */
const wireOnly = ['test/integration/client/transport/wire-*.test.ts'];
/** Tests without a client of ours: the transport makes no difference. */
const withoutClient = ['test/integration/embedded/**'];
/** Files that run our client beside Curator's. The other interop files run foreign clients on the embedded server. */
const besideCurator = [
  'test/interop/curator.test.ts',
  'test/interop/curator-cache.test.ts',
  'test/interop/curator-counters-and-barriers.test.ts',
  'test/interop/curator-persistent-nodes.test.ts',
  'test/interop/curator-queues.test.ts',
  'test/interop/group-members.test.ts',
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
    // The native client cannot live in worker threads: each file has a process.
    pool: 'forks',
    // Generous limits: a test waits for an event, and the machine may be busy.
    expect: { poll: { timeout: 60_000 } },
    testTimeout: 180_000,
    hookTimeout: 180_000,
    // A CI machine may stand still past any limit. scripts/test.mjs names each test that needed a second try. The
    // chaos and failover runs, the seckill under load and the property tests have no second try.
    retry: process.env.CI ? 1 : 0,
    projects: [
      { extends: true, test: { name: 'unit', include: ['test/unit/**/*.test.ts'], ...waiting } },
      { extends: true, test: { name: 'e2e', include: ['test/e2e/**/*.test.ts'], ...busy } },
      { extends: true, test: { name: 'browser', include: ['test/browser/**/*.test.ts'], ...busy } },
      over('native', 'faults', 'real', { include: faults }),
      over('wire', 'faults-wire', 'real', { include: faults }),
      over('native', 'interop', 'real', { include: interop }),
      over('wire', 'interop-embedded', 'embedded', { include: interop }),
      over('wire', 'interop-wire', 'real', { include: besideCurator }),
      over('native', 'embedded', 'embedded', { include: integration, exclude: wireOnly }),
      over('native', 'real', 'real', { include: integration, exclude: wireOnly }),
      over('wire', 'embedded-wire', 'embedded', { include: integration, exclude: withoutClient }),
      over('wire', 'real-wire', 'real', { include: integration, exclude: withoutClient }),
      copying('clickhouse-keeper'),
      copying('raftkeeper'),
    ],
  },
});
