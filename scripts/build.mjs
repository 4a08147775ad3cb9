// node scripts/build.mjs [lib] [scripts] [sample] [examples] [page]
// Builds those of the targets that are out of date, and prints nothing if none is. scripts/run.mjs uses it.
import { execFileSync } from 'node:child_process';
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { messageOf } from './message-of.mjs';

const ROOT = fileURLToPath(new URL('..', import.meta.url));

/**
 * @typedef {object} Target
 * @property {string} script
 * @property {string} sources
 * @property {string} output
 * @property {string} config
 * @property {RegExp} [uncompiled]
 * @property {string[]} [results]
 * @property {string} [last]
 */

/**
 * Scripts, the sample and the examples import the built library, so they are built again after it.
 *
 * @type {Record<string, Target>}
 */
const TARGETS = {
  lib: {
    script: 'build',
    sources: 'lib',
    output: 'dist',
    config: 'tsconfig.build.json',
    // Written last.
    last: 'cjs/package.json',
  },
  scripts: {
    script: 'build:scripts',
    sources: 'scripts',
    output: 'dist-scripts',
    config: 'tsconfig.scripts.json',
    // Files that run from scripts/.
    uncompiled: /^(docs\/context\/|(build|run|test)\.mjs$)/,
  },
  sample: {
    script: 'build:sample',
    sources: 'sample-app',
    output: 'dist-sample',
    config: 'tsconfig.sample.json',
    uncompiled: /^page(\/|$)/,
  },
  examples: {
    script: 'build:examples',
    sources: 'examples',
    output: 'dist-examples',
    config: 'tsconfig.examples.json',
    // The first needs the client that Prisma generates. The others are what a user installed and built in an example.
    uncompiled: /^prisma-fence(\/|$)|\/(node_modules|dist)(\/|$)/,
  },
  page: {
    script: 'build:page',
    sources: 'sample-app/page',
    output: 'dist-page',
    config: 'sample-app/page/vite.config.ts',
    // The only file whose name does not depend on its content.
    results: ['index.html'],
  },
};

/**
 * Builds the targets that are out of date: an output is missing, or older than any source. Exits with 1 if a build fails.
 *
 * @param {...string} names in the order in which they depend on each other
 */
export function build(...names) {
  for (const name of names) {
    const target = TARGETS[name];
    if (!target) throw new Error(`no build target ${name}: ${Object.keys(TARGETS).join(', ')}`);
    if (isUpToDate(target)) continue;
    try {
      execFileSync('npm', ['run', '--silent', target.script], { cwd: ROOT, stdio: 'inherit' });
    } catch (error) {
      // A compiler that ran has printed what is wrong.
      if (!(error instanceof Error && 'status' in error)) console.error(messageOf(error));
      process.exit(1);
    }
  }
}

/** @param {Target} target */
function isUpToDate({ sources, output, config, uncompiled, results, last }) {
  const directory = join(ROOT, sources);
  const entries = readdirSync(directory, { encoding: 'utf8', recursive: true }).filter(
    (entry) => !uncompiled?.test(entry),
  );
  // A directory changes when a file in it is removed or renamed.
  const newest = Math.max(
    ...['tsconfig.json', config, sources].map((file) => modified(join(ROOT, file))),
    ...entries.map((entry) => modified(join(directory, entry))),
  );
  results ??= entries
    .filter((entry) => /\.m?ts$|\.mjs$/.test(entry) && !entry.endsWith('.d.ts'))
    .map((entry) => entry.replace(/ts$/, 'js'));
  if (last) results.push(last);
  return results.every((result) => modified(join(ROOT, output, result)) >= newest);
}

/**
 * Milliseconds; 0 for a file that does not exist.
 *
 * @param {string} file
 */
function modified(file) {
  return statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) build(...process.argv.slice(2));
