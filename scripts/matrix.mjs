// npm run matrix -- [options], which --help lists
import { cp, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { listOption, readOptions, UsageError } from './options.mjs';
import { createScaffold, SCAFFOLDS } from './matrix-scaffold.mjs';
import { inScratch, install, pack, root, run } from './packed.mjs';

/** The npm packages of a feature, in addition to those that all features need. */
const FEATURES = {
  recipes: () => [],
  http: () => [],
  graphql: (nest) => [
    ...['graphql', 'apollo', 'mercurius'].map((name) => `@nestjs/${name}@${nest + 2}`),
    '@apollo/server@5',
    '@as-integrations/express5@1',
    '@as-integrations/fastify@3',
    'graphql@16',
    'mercurius@16',
  ],
  rpc: (nest) => [`@nestjs/microservices@${nest}`],
  ws: (nest) => [
    `@nestjs/websockets@${nest}`,
    `@nestjs/platform-socket.io@${nest}`,
    'socket.io-client@4',
  ],
  schedule: (nest) => [`@nestjs/schedule@${nest === 11 ? 6 : nest}`],
  cqrs: (nest) => [`@nestjs/cqrs@${nest}`],
  bullmq: (nest) => [`@nestjs/bullmq@${nest}`, 'bullmq@6', 'ioredis@5'],
  cls: (nest) => [`nestjs-cls@${nest === 11 ? 6 : 7}`],
  events: (nest) => [`@nestjs/event-emitter@${nest === 11 ? 3 : nest}`],
  config: (nest) => [`@nestjs/config@${nest === 11 ? 4 : nest}`],
  typeorm: (nest) => [`@nestjs/typeorm@${nest}`, `typeorm@${nest === 11 ? '0.3' : 1}`, 'sql.js@1'],
  'zk-value': () => [],
  file: () => [],
  observe: () => ['@nestjs/observe@0.3'],
};
/** The lowest version of each release line that `engines` allows. */
const NODES = ['20.19.0', '22.12.0', '24'];
/** The versions that README names. */
const RUNTIMES = ['bun@1.4.5', 'deno@2.9.6'];
const isNode = (node) => !node.includes('@');
const WAYS = [
  { module: 'esm', type: 'module', platform: 'express' },
  { module: 'cjs', type: 'commonjs', platform: 'fastify' },
];
const TIME_LIMIT = 120_000;
const SCAFFOLD_PARTS = ['jest', 'vitest', 'builders', 'types'];
const PARTS = [...Object.keys(FEATURES), ...SCAFFOLD_PARTS];

const {
  nest: nests,
  node: nodes,
  only,
} = readOptions({
  name: 'matrix',
  about: `Installs the packed package into applications on each Nest and each Node, as ES modules on Express and as
CommonJS on Fastify, and runs the features of test/matrix, also on Bun and Deno; bullmq needs redis-server. Then, on
Node only, it creates applications with the Nest CLI and runs test/matrix/scaffold in them: under the test runner of the
scaffold (jest on Nest 11, vitest on Nest 12), with each builder of the CLI (builders), and with the strictest types that
such an application can have (types, on Nest 11).

The exit code is 0 if all of them work, 1 if one does not, and 2 for a wrong option.`,
  options: {
    nest: listOption('versions of Nest, 11 or 12', '11,12', (name, text) => {
      if (text === '11' || text === '12') return Number(text);
      throw new UsageError(`--${name} must be 11 or 12, but is ${text}`);
    }),
    node: listOption(
      'versions of Node, of the npm package `node`, `current`, bun@VERSION or deno@VERSION',
      [...NODES, ...RUNTIMES].join(),
      (name, text) => {
        if (/^(current|((bun|deno)@)?[\d.]+)$/.test(text)) return text;
        throw new UsageError(
          `--${name} must be versions, current, bun@VERSION or deno@VERSION, but has ${text}`,
        );
      },
    ),
    only: listOption('features and parts to check', PARTS.join(), (name, text) => {
      if (PARTS.includes(text)) return text;
      throw new UsageError(`--${name} must be some of ${PARTS}, but has ${text}`);
    }),
  },
});

const features = only.filter((name) => name in FEATURES);

await inScratch(async (scratch) => {
  const tarball = await pack(scratch);
  const binaries = new Map();
  for (const node of nodes) binaries.set(node, await installNode(scratch, node));
  if (features.length > 0) await checkFeatures(scratch, tarball, binaries);
  for (const nest of nests) {
    const parts = SCAFFOLD_PARTS.filter((part) => only.includes(part) && part in SCAFFOLDS[nest]);
    if (parts.length > 0 && nodes.some(isNode))
      await checkScaffold(scratch, tarball, nest, parts, binaries);
  }
});

async function checkFeatures(scratch, tarball, binaries) {
  console.log(row('nest', 'node', 'module', 'platform', ...features, 'seconds'));
  for (const nest of nests) {
    const directory = await installed(nest, features.length, () =>
      installApp(scratch, tarball, nest),
    );
    for (const way of WAYS) {
      await compile(directory, way);
      for (const node of nodes) await check(directory, way, nest, node, binaries.get(node));
    }
  }
}

async function checkScaffold(scratch, tarball, nest, parts, binaries) {
  console.log(`\n${row('nest', 'node', 'part', 'with', 'result', 'seconds')}`);
  const app = await installed(nest, 1, () => createScaffold(scratch, tarball, nest, parts));
  const checks = parts.flatMap((part) =>
    Object.entries(SCAFFOLDS[nest][part].checks).map(([name, check]) => ({ part, name, ...check })),
  );
  for (const { part, name, prepare, test } of checks) {
    if (prepare && !(await attempt([nest, 'build', part, name], () => prepare(app)))) continue;
    for (const node of nodes.filter(isNode)) {
      await attempt([nest, node, part, name], () => test(app, binaries.get(node)));
    }
  }
}

/** Prints a row with the time of an installation, under a table with so many results. */
async function installed(nest, results, install) {
  const { value, failure, seconds } = await timed(install);
  if (failure) throw failure;
  console.log(row(nest, 'install', '', '', ...Array(results).fill(''), seconds));
  return value;
}

/** Prints a row with the result, and resolves to whether the check passed. */
async function attempt(cells, check) {
  const { failure, seconds } = await timed(check);
  console.log(row(...cells, failure ? 'FAILED' : 'ok', seconds));
  if (failure) fail(failure.message);
  return !failure;
}

async function timed(work) {
  const start = performance.now();
  const result = await work().then(
    (value) => ({ value }),
    (failure) => ({ failure }),
  );
  return { ...result, seconds: ((performance.now() - start) / 1000).toFixed(1) };
}

function fail(message) {
  console.error(message);
  process.exitCode = 1;
}

async function installNode(scratch, version) {
  if (version === 'current') return process.execPath;
  const runtime = isNode(version) ? `node@${version}` : version;
  const directory = join(scratch, runtime);
  await makePackage(directory, { private: true });
  await install(directory, runtime);
  return join(directory, 'node_modules/.bin', runtime.split('@')[0]);
}

async function installApp(scratch, tarball, nest) {
  const directory = join(scratch, `nest-${nest}`);
  await makePackage(directory, { private: true });
  await install(
    directory,
    tarball,
    ...['common', 'core', 'platform-express', 'platform-fastify'].map(
      (name) => `@nestjs/${name}@${nest}`,
    ),
    'reflect-metadata@0.2',
    'rxjs@7',
    'typescript@6',
    '@types/node@20',
    ...features.flatMap((feature) => FEATURES[feature](nest)),
  );
  return directory;
}

/** Compiles the source as ES or CommonJS modules, which the package.json beside it decides. */
async function compile(directory, { module, type }) {
  const app = join(directory, module);
  await makePackage(app, { type });
  const source = join(root, 'test/matrix');
  for (const file of ['tsconfig.json', 'main.ts', 'support']) {
    await cp(join(source, file), join(app, file), { recursive: true });
  }
  for (const feature of features) {
    await cp(join(source, `features/${feature}.ts`), join(app, `features/${feature}.ts`));
  }
  await run(process.execPath, [join(directory, 'node_modules/typescript/bin/tsc'), '-p', app]);
}

async function check(directory, { module, platform }, nest, node, binary) {
  const main = join(directory, module, 'main.js');
  const options = { cwd: directory, timeout: TIME_LIMIT };
  const command = node.startsWith('deno') ? ['run', '--allow-all'] : [];
  const args = [...command, main, platform, ...features];
  const { value, failure, seconds } = await timed(() => run(binary, args, options));
  const { stdout } = value ?? failure;
  const ok = stdout.split('\n');
  const results = features.map((feature) => (ok.includes(`ok ${feature}`) ? 'ok' : 'FAILED'));
  console.log(row(nest, node, module, platform, ...results, seconds));
  if (failure) fail(failure.message);
}

async function makePackage(directory, content) {
  await mkdir(directory);
  await writeFile(join(directory, 'package.json'), JSON.stringify(content));
}

function row(...cells) {
  return cells
    .map((cell) => String(cell).padEnd(10))
    .join('')
    .trimEnd();
}
