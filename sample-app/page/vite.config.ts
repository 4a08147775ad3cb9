import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vite';

export default defineConfig({
  root: fileURLToPath(new URL('.', import.meta.url)),
  base: './',
  logLevel: 'warn',
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  build: {
    outDir: fileURLToPath(new URL('../../dist-page', import.meta.url)),
    emptyOutDir: true,
    // The policy of the page forbids data URLs.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
});
