import { existsSync } from 'node:fs';

/**
 * The compiled thread. Run from TypeScript source (under a test runner) there is none beside this
 * module, and no loader reaches into threads: the build's is used, which the test command makes first.
 */
export function workerFile(): URL {
  const isCompiled = import.meta.url.endsWith('.js');
  const file = new URL(
    isCompiled ? './worker.js' : '../../dist/embedded/worker.js',
    import.meta.url,
  );
  if (!existsSync(file)) {
    throw new Error(
      `the embedded ZooKeeper's thread is not at ${file.pathname}` +
        (isCompiled
          ? ': a bundler must keep that file'
          : ': build the package first (npm run build)'),
    );
  }
  return file;
}
