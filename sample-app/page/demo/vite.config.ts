import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vite';
import page from '../vite.config.js';

const path = (file: string) => fileURLToPath(new URL(file, import.meta.url));

/** Stand-ins for the modules of Node that a simulation uses, by the names of the modules. */
const NODE_MODULES = {
  async_hooks: 'async-hooks',
  crypto: 'crypto',
  diagnostics_channel: 'diagnostics-channel',
  'dns/promises': 'unavailable',
  events: 'events',
  fs: 'unavailable',
  module: 'module',
  net: 'unavailable',
  os: 'os',
  path: 'unavailable',
  'path/posix': 'unavailable',
  perf_hooks: 'unavailable',
  timers: 'timers',
  'timers/promises': 'timers-promises',
  tls: 'unavailable',
  util: 'util',
  'util/types': 'util',
  worker_threads: 'unavailable',
};

/** The page without a server, for any file server. */
export default defineConfig({
  ...page,
  root: path('.'),
  resolve: {
    alias: [
      ...Object.entries(NODE_MODULES).map(([name, file]) => ({
        find: new RegExp(`^node:${name}$`),
        replacement: path(`node/${file}.ts`),
      })),
      { find: 'nestjs-zookeeper/recipes', replacement: path('../../../lib/recipes/index.ts') },
      {
        find: 'nestjs-zookeeper/testing',
        replacement: path('../../../lib/testing/simulation/simulate.ts'),
      },
    ],
  },
  build: {
    ...page.build,
    outDir: path('../../../dist-demo'),
    // Without async functions, the context of the callbacks of promises is known; see node/async-hooks.ts.
    target: 'es2016',
    cssTarget: 'esnext',
    rolldownOptions: {
      input: { index: path('index.html'), embed: path('embed.tsx') },
      // The documentation imports it by this name.
      output: {
        entryFileNames: ({ name }) => (name === 'embed' ? 'embed.js' : 'assets/[name]-[hash].js'),
      },
      preserveEntrySignatures: 'exports-only',
      // The target has no BigInt, but every browser has.
      checks: { toleratedTransform: false },
    },
  },
  worker: {
    format: 'es',
    plugins: () => [
      {
        name: 'node-globals',
        // package.json says that modules have no side effects.
        transform: (code, id) =>
          id.includes('/demo/node/') ? { code, moduleSideEffects: true } : undefined,
      },
    ],
    rolldownOptions: { checks: { toleratedTransform: false } },
  },
});
