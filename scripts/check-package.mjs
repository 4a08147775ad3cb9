// npm run check:package
import { existsSync } from 'node:fs';
import { readdir, readFile, stat } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { messageOf } from './message-of.mjs';
import { readOptions } from './options.mjs';
import { inScratch, pack, root, run } from './packed.mjs';

readOptions({
  name: 'check:package',
  about: `Checks what npm would publish: the metadata, the types and entry points (with publint and attw), the
sizes, and a dry run of npm publish.

The exit code is 0 if all is well, 1 if not, and 2 for a wrong option.`,
  options: {},
});

/** Bytes, with some room to grow. */
const BUDGET = { packed: 432_000, unpacked: 2_606_000 };
/** Bytes of this package's JavaScript that an import of each entry point loads. */
const ENTRY_BUDGET = {
  '.': 397_000,
  './recipes': 290_000,
  './coordination': 529_000,
  './embedded': 30_000,
  './testing': 526_000,
  './opentelemetry': 30_300,
  './terminus': 321_000,
  './schedule': 370_000,
  './fence': 166_000,
};

const failures = [];
const manifest = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'));
await checkMetadata();
await checkDist();
await checkEntries();
await inScratch(checkTarball);
for (const failure of failures) console.error(`FAILED: ${failure}`);
process.exitCode = failures.length === 0 ? 0 : 1;

async function checkMetadata() {
  const { version, repository, license, publishConfig, engines } = manifest;
  if (!/^\d+\.\d+\.\d+(-[\w.]+)?$/.test(version))
    failures.push(`version ${version} is not semantic`);
  const changelog = await readFile(join(root, 'CHANGELOG.md'), 'utf8');
  if (!changelog.includes(`\n## [${version}]`)) failures.push(`CHANGELOG.md has no [${version}]`);
  const telemetry = await readFile(join(root, 'lib/opentelemetry/index.ts'), 'utf8');
  if (!telemetry.includes(`VERSION = '${version}'`))
    failures.push(`VERSION of lib/opentelemetry/index.ts is not ${version}`);
  if (!/^git\+https:\/\/\S+\.git$/.test(repository?.url)) failures.push('repository has no url');
  if (!publishConfig?.provenance) failures.push('publishConfig.provenance is not set');
  if (!license || !engines?.node) failures.push('license or engines.node is missing');
}

/** Finds files of removed sources, which would be published. */
async function checkDist() {
  for (const file of await readdir(join(root, 'dist'), { recursive: true })) {
    if (file === 'cjs' || file === 'cjs/package.json') continue;
    const source = join(root, 'lib', file.replace(/^cjs\//, '').replace(/(\.d)?\.[jt]s$/, '.ts'));
    if (!existsSync(source))
      failures.push(`dist/${file} has no source in lib: remove dist and run npm run build`);
  }
}

async function checkEntries() {
  for (const [entry, target] of Object.entries(manifest.exports)) {
    if (typeof target === 'string') continue;
    withinBudget(
      entry,
      await bytesLoadedBy(join(root, target.default.default)),
      ENTRY_BUDGET[entry],
    );
  }
}

/** Follows static imports only: dynamic imports and workers cost nothing at the start. */
async function bytesLoadedBy(file, seen = new Set()) {
  if (seen.has(file)) return 0;
  seen.add(file);
  const source = await readFile(file, 'utf8');
  let bytes = Buffer.byteLength(source);
  for (const [, specifier] of source.matchAll(/^(?:import|export)[^'";]*? from '(\.[^']+)'/gm)) {
    bytes += await bytesLoadedBy(resolve(dirname(file), specifier), seen);
  }
  return bytes;
}

async function checkTarball(directory) {
  const tarball = await pack(directory);
  const { stdout } = await run('tar', ['-tvzf', tarball]);
  const sizes = [...stdout.matchAll(/^\S+\s+\S+\s+(\d+)/gm)].map(([, size]) => Number(size));
  withinBudget('packed', (await stat(tarball)).size, BUDGET.packed);
  withinBudget(
    'unpacked',
    sizes.reduce((sum, size) => sum + size, 0),
    BUDGET.unpacked,
  );
  await tool('publint', ['run', tarball, '--strict']);
  await tool('attw', [tarball, '--no-emoji', '--format', 'ascii']);
  const published = await attempt('npm', ['publish', '--dry-run', '--ignore-scripts'], {
    cwd: root,
  });
  // npm would publish a package.json that it has changed.
  if (published?.stderr.includes('auto-corrected')) failures.push(published.stderr);
}

function withinBudget(what, bytes, budget) {
  console.log(`${what.padEnd(12)}${String(bytes).padStart(9)} of ${budget} bytes`);
  if (!(bytes <= budget)) failures.push(`${what} is over its budget`);
}

function tool(name, args) {
  return attempt(join(root, 'node_modules/.bin', name), args, { cwd: root });
}

async function attempt(file, args, options) {
  try {
    const output = await run(file, args, options);
    console.log(`ok          ${[file, ...args].join(' ').replaceAll(`${root}/`, '')}`);
    return output;
  } catch (error) {
    failures.push(messageOf(error));
  }
}
