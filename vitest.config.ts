import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

const source = (file: string) => fileURLToPath(new URL(file, import.meta.url));

// Integration files run on the embedded server and a real ZooKeeper, over the native and the wire
// transport. test/support/servers.ts reads ZK_SERVER, and an omitted option `transport` means what
// the other variable says; scripts/test.mjs says which run when.
const over = (
  transport: 'native' | 'wire',
  name: string,
  server: 'embedded' | 'real',
  files: { include: string[]; exclude?: string[] },
) => ({
  extends: true as const,
  test: { name, ...files, env: { ZK_SERVER: server, NESTJS_ZOOKEEPER_TRANSPORT: transport } },
});

const integration = ['test/integration/**/*.test.ts'];
const faults = ['test/faults/**/*.test.ts'];
const interop = ['test/interop/**/*.test.ts'];
/** Of the wire transport alone. */
const wireOnly = ['test/integration/client/transport/wire-*.test.ts'];
/** No client of ours takes part. */
const withoutClient = ['test/integration/embedded/parity-with-zookeeper.test.ts'];
/** Our client beside Curator's; the others are strangers' clients on the embedded server. */
const besideCurator = ['test/interop/curator.test.ts', 'test/interop/leader.test.ts'];

export default defineConfig({
  resolve: {
    // Tests and the sample import the library by its published name; they must get the one copy in lib/.
    alias: [
      { find: /^nestjs-zookeeper$/, replacement: source('lib/index.ts') },
      {
        find: /^nestjs-zookeeper\/(recipes|embedded|opentelemetry|terminus|testing)$/,
        replacement: source('lib/$1/index.ts'),
      },
      {
        find: /^nestjs-zookeeper\/teaching$/,
        replacement: source('lib/teaching/index.ts'),
      },
    ],
  },
  test: {
    // The native client cannot live in worker threads: one process a file.
    pool: 'forks',
    // Most of the time they wait for a server or a clock.
    maxWorkers: 2,
    // Generous: a test waits for an event, and its machine may be busy with others.
    expect: { poll: { timeout: 60_000 } },
    testTimeout: 180_000,
    hookTimeout: 180_000,
    // On CI, whose machine may stand still past any limit; scripts/test.mjs names whoever needed it. The chaos
    // and failover runs, the seckill under load and the property tests have none.
    retry: process.env.CI ? 1 : 0,
    projects: [
      { extends: true, test: { name: 'unit', include: ['test/unit/**/*.test.ts'] } },
      { extends: true, test: { name: 'e2e', include: ['test/e2e/**/*.test.ts'] } },
      { extends: true, test: { name: 'browser', include: ['test/browser/**/*.test.ts'] } },
      over('native', 'faults', 'real', { include: faults }),
      over('wire', 'faults-wire', 'real', { include: faults }),
      over('native', 'interop', 'real', { include: interop }),
      over('wire', 'interop-embedded', 'embedded', { include: interop }),
      over('wire', 'interop-wire', 'real', { include: besideCurator }),
      over('native', 'embedded', 'embedded', { include: integration, exclude: wireOnly }),
      over('native', 'real', 'real', { include: integration, exclude: wireOnly }),
      over('wire', 'embedded-wire', 'embedded', { include: integration, exclude: withoutClient }),
      over('wire', 'real-wire', 'real', { include: integration, exclude: withoutClient }),
    ],
  },
});
