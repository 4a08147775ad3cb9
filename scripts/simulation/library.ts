import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { UsageError } from './options.js';
import type { Library } from './types.js';

const FILES = {
  nest: 'index.js',
  recipes: 'recipes/index.js',
  coordination: 'coordination/index.js',
  testing: 'testing/index.js',
  schedule: 'schedule/index.js',
};

/**
 * Checks that a directory contains a build of the library.
 *
 * @throws UsageError if it does not
 */
export function checkLibrary(directory: string): void {
  for (const file of Object.values(FILES)) {
    if (existsSync(join(directory, file))) continue;
    throw new UsageError(`--lib ${directory} is not a build of the library: it has no ${file}`);
  }
}

/**
 * Loads a build of the library. To be called before the first run, because virtual time cannot wait for files.
 *
 * @throws UsageError if the build cannot be loaded
 */
export async function loadLibrary(directory: string): Promise<Library> {
  const load = async <T>(file: string) => {
    try {
      return (await import(pathToFileURL(resolve(directory, file)).href)) as T;
    } catch (cause) {
      const message = `--lib ${directory} cannot be loaded: ${(cause as Error).message}`;
      throw new UsageError(message, { cause });
    }
  };
  return {
    nest: await load(FILES.nest),
    recipes: await load(FILES.recipes),
    coordination: await load(FILES.coordination),
    testing: await load(FILES.testing),
    schedule: await load(FILES.schedule),
  };
}
