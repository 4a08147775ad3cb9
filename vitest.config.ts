import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

const source = (file: string) => fileURLToPath(new URL(file, import.meta.url));

// Integration and interop files run twice: once against the embedded server, once against a real ZooKeeper.
// test/support/servers.ts reads ZK_SERVER; scripts/test.mjs leaves the real one's projects out where no JVM is.
const onServer = (name: string, folder: string, server: 'embedded' | 'real') => ({
  extends: true as const,
  test: {
    name,
    include: [`test/${folder}/**/*.test.ts`],
    env: { ZK_SERVER: server },
  },
});

export default defineConfig({
  resolve: {
    // Tests and the sample import the library by its published name; they must get the one copy in lib/.
    alias: [
      { find: /^nestjs-zookeeper$/, replacement: source('lib/index.ts') },
      {
        find: /^nestjs-zookeeper\/(recipes|embedded|testing)$/,
        replacement: source('lib/$1/index.ts'),
      },
      {
        find: /^nestjs-zookeeper\/teaching$/,
        replacement: source('lib/recipes/teaching/index.ts'),
      },
    ],
  },
  test: {
    // The native client cannot live in worker threads: one process a file.
    pool: 'forks',
    // Most of the time they wait for a server or a clock.
    maxWorkers: 2,
    // Generous: a test waits for an event, and its machine may be busy with others.
    expect: { poll: { timeout: 10_000 } },
    testTimeout: 30_000,
    hookTimeout: 30_000,
    projects: [
      { extends: true, test: { name: 'unit', include: ['test/unit/**/*.test.ts'] } },
      { extends: true, test: { name: 'e2e', include: ['test/e2e/**/*.test.ts'] } },
      onServer('interop', 'interop', 'real'),
      onServer('interop-embedded', 'interop', 'embedded'),
      onServer('embedded', 'integration', 'embedded'),
      onServer('real', 'integration', 'real'),
    ],
  },
});
