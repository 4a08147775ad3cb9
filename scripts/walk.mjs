// npm run walk -- [options], which --help lists
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { listOption, readOptions, UsageError } from './options.mjs';
import { inScratch, pack, root } from './packed.mjs';
import { serve, shell } from './scaffold.mjs';

/** The test of a locked method must be shorter, without its imports and its closing bracket. */
const TEST_LINES = 10;

const { nest: nests } = readOptions({
  name: 'walk',
  about: `Follows docs/quick-start.md: creates a Nest application, installs the packed package, runs its
schematic, copies the files of the page, sends two requests at once, and runs the unit test under the test runner of
the new application: Jest on Nest 11, Vitest on Nest 12.

The exit code is 0 if one request runs, the other one is rejected and the tests pass, 1 if not, and 2 for a wrong
option.`,
  options: {
    nest: listOption('versions of Nest, 11 or 12', '11,12', (name, text) => {
      if (text === '11' || text === '12') return text;
      throw new UsageError(`--${name} must be 11 or 12, but is ${text}`);
    }),
  },
});

const [commands, controller, module, main, requests, test] = await quickStart();

await inScratch(async (scratch) => {
  const tarball = await pack(scratch);
  for (const nest of nests) {
    const directory = join(scratch, nest);
    await mkdir(directory);
    await walk(directory, tarball, nest);
  }
}).then(
  () => console.log('One request ran, the other one was rejected, and the tests pass.'),
  ({ message }) => {
    console.error(`FAILED: ${message}`);
    process.exitCode = 1;
  },
);

async function walk(directory, tarball, nest) {
  const create = commands.replace('@nestjs/cli new', `@nestjs/cli@${nest} new`);
  step(create);
  const install = create.replace('install nestjs-zookeeper', `install ${tarball}`);
  await shell(install.replace('new shop', 'new shop --skip-git'), directory);
  const app = join(directory, 'shop');
  await addByNest(app);
  // The page says so: an application of Nest 11 imports its files without `.js`.
  const write = (file, code) =>
    writeFile(
      join(app, 'src', file),
      nest === '11' ? code.replaceAll(/'(\.[^']+)\.js'/g, "'$1'") : code,
    );
  await write('reports.controller.ts', controller);
  await write('app.module.ts', module);
  await write('main.ts', main);
  step('npm start');
  await serve(['npm', 'start'], { cwd: app }, (url) => request(url, app));
  await write('reports.controller.spec.ts', test);
  step('npm test');
  const { stdout, stderr } = await shell('npm test', app);
  console.log(stdout + stderr);
  if (!/2 passed/.test(stdout + stderr)) throw new Error('not all test files were run');
}

async function request(url, app) {
  step(requests);
  const { stdout } = await shell(requests.replaceAll('http://localhost:3000', url), app);
  console.log(stdout);
  const excluded = stdout.match(/"code":"BUSY"/g)?.length;
  const ran = stdout.match(/"fencingToken":"\d+"/g)?.length;
  if (ran !== 1 || excluded !== 1)
    throw new Error('the lock did not reject one of the two requests');
}

async function quickStart() {
  const page = await readFile(join(root, 'docs/quick-start.md'), 'utf8');
  const blocks = [...page.matchAll(/^```\w+\n(.*?)^```$/gms)].map(([, code]) => code).slice(0, 6);
  const lines = String(blocks.at(-1))
    .split('\n')
    .filter((line) => /^\s*\w/.test(line));
  const own = lines.filter((line) => !line.startsWith('import '));
  if (own.length >= TEST_LINES) throw new Error(`the unit test has ${own.length} lines`);
  return blocks;
}

/** Runs the schematic with the CLI of the new application. */
async function addByNest(app) {
  const add = 'npx nest add nestjs-zookeeper';
  step(add);
  await shell(`${add} --skip-install`, app);
  const added = await readFile(join(app, 'src/app.module.ts'), 'utf8');
  if (!added.includes('imports: [ZkModule.forRoot(')) throw new Error(`not added:\n${added}`);
  const started = await readFile(join(app, 'src/main.ts'), 'utf8');
  if (!started.includes('app.enableShutdownHooks();')) throw new Error(`not added:\n${started}`);
  await shell('npx tsc --noEmit', app);
}

function step(command) {
  console.log(`$ ${command.trim().replaceAll('\n', '\n$ ')}`);
}
