// npm run matrix -- [--nest 11,12] [--node 20.19.0,22.12.0,24] [--only http,graphql,…]
// What test/matrix checks, by the packed tarball, on each Nest and each Node (versions of npm's package
// `node`, or `current`), once as ES modules on Express and once as CommonJS on Fastify. Exits with 1 where
// anything fails.
import { cp, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { inScratch, install, pack, root, run } from './packed.mjs';

/** What a feature needs of npm, beside what all need. */
const FEATURES = {
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
};
/** The lowest that `engines` allows of each. */
const NODES = ['20.19.0', '22.12.0', '24'];
const WAYS = [
  { module: 'esm', type: 'module', platform: 'express' },
  { module: 'cjs', type: 'commonjs', platform: 'fastify' },
];
const TIME_LIMIT = 120_000;

const { values } = parseArgs({
  options: {
    nest: { type: 'string', default: '11,12' },
    node: { type: 'string', default: NODES.join() },
    only: { type: 'string', default: Object.keys(FEATURES).join() },
  },
});
const nests = values.nest.split(',').map(Number);
const nodes = values.node.split(',');
const features = values.only.split(',');
const unknown = [
  ...nests.filter((nest) => nest !== 11 && nest !== 12).map((nest) => `--nest ${nest}`),
  ...nodes.filter((node) => !/^(current|[\d.]+)$/.test(node)).map((node) => `--node ${node}`),
  ...features.filter((feature) => !(feature in FEATURES)).map((feature) => `--only ${feature}`),
];
if (unknown.length > 0) {
  console.error(`unknown: ${unknown.join(', ')}`);
  process.exit(2);
}

await inScratch(async (scratch) => {
  const tarball = await pack(scratch);
  const binaries = new Map();
  for (const node of nodes) binaries.set(node, await installNode(scratch, node));
  console.log(row('nest', 'node', 'module', 'platform', ...features));
  for (const nest of nests) {
    const directory = await installApp(scratch, tarball, nest);
    for (const way of WAYS) {
      await compile(directory, way);
      for (const node of nodes) await check(directory, way, nest, node, binaries.get(node));
    }
  }
});

async function installNode(scratch, version) {
  if (version === 'current') return process.execPath;
  const directory = join(scratch, `node-${version}`);
  await makePackage(directory, { private: true });
  await install(directory, `node@${version}`);
  return join(directory, 'node_modules/node/bin/node');
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

/** The same source is an ES or a CommonJS module by the package.json beside it. */
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
  const { stdout, failure } = await run(binary, [main, platform, ...features], options).then(
    ({ stdout }) => ({ stdout }),
    (error) => ({ stdout: error.stdout, failure: error.message }),
  );
  const ok = stdout.split('\n');
  const results = features.map((feature) => (ok.includes(`ok ${feature}`) ? 'ok' : 'FAILED'));
  console.log(row(String(nest), node, module, platform, ...results));
  if (failure === undefined) return;
  console.error(failure);
  process.exitCode = 1;
}

async function makePackage(directory, content) {
  await mkdir(directory);
  await writeFile(join(directory, 'package.json'), JSON.stringify(content));
}

function row(...cells) {
  return cells.map((cell) => cell.padEnd(9)).join('');
}
