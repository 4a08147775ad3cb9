import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const run = promisify(execFile);
const root = join(import.meta.dirname, '../..');

const APP = `
  class Shop {
    async sell() { return currentLease('gold').fencingToken; }
  }
  const descriptor = Object.getOwnPropertyDescriptor(Shop.prototype, 'sell');
  const decorated = DistributedLock('gold')(Shop.prototype, 'sell', descriptor) ?? descriptor;
  Object.defineProperty(Shop.prototype, 'sell', decorated);
  class AppModule {}
  Module({ imports: [ZkModule.forRoot({ embedded: true })], providers: [Shop] })(AppModule);
  (async () => {
    const app = await NestFactory.createApplicationContext(AppModule, { logger: false });
    const viaService = await app.get(LockService).withLock('gold', (lease) => lease.fencingToken);
    const viaDecorator = await app.get(Shop).sell();
    await app.close();
    console.log(JSON.stringify({ rises: viaDecorator > viaService, recipes: typeof recipes.Mutex, embedded: typeof embedded.EmbeddedZooKeeper, version: pkg.version }));
  })();
`;

const ESM = `
  import 'reflect-metadata';
  import { createRequire } from 'node:module';
  import { Module } from '@nestjs/common';
  import { NestFactory } from '@nestjs/core';
  import { currentLease, DistributedLock, LockService, ZkModule } from 'nestjs-zookeeper';
  import * as recipes from 'nestjs-zookeeper/recipes';
  import * as embedded from 'nestjs-zookeeper/embedded';
  const pkg = createRequire(import.meta.url)('nestjs-zookeeper/package.json');
`;

const CJS = `
  require('reflect-metadata');
  const { Module } = require('@nestjs/common');
  const { NestFactory } = require('@nestjs/core');
  const { currentLease, DistributedLock, LockService, ZkModule } = require('nestjs-zookeeper');
  const recipes = require('nestjs-zookeeper/recipes');
  const embedded = require('nestjs-zookeeper/embedded');
  const pkg = require('nestjs-zookeeper/package.json');
`;

const TYPED = `
  import { DistributedLock, type Lease, LockService, type NodeError, ZkModule } from 'nestjs-zookeeper';
  import { Mutex } from 'nestjs-zookeeper/recipes';
  import { EmbeddedZooKeeper } from 'nestjs-zookeeper/embedded';
  import { TestZooKeeper } from 'nestjs-zookeeper/testing';

  export class Orders {
    constructor(private readonly locks: LockService) {}
    @DistributedLock((id: number) => \`order-\${id}\`)
    async pay(id: number): Promise<bigint> {
      return this.locks.withLock('ledger', (lease: Lease) => lease.fencingToken + BigInt(id));
    }
  }
  export const parts = [ZkModule.forRoot({ connectString: 'localhost' }), Mutex, EmbeddedZooKeeper, TestZooKeeper];
  // With --declaration, the compiler must be able to name the inferred types.
  export const acquire = <Key extends string>(locks: LockService, key: Key) => locks.acquire(key);
  export const skipping = DistributedLock('gold', { wait: 0, onBusy: 'skip' });
  export const stateOf = ({ client, recipe }: Mutex) => ({ recipe, transport: client.transport, session: client.session() });
  export const codeOf = ({ code }: NodeError) => code;
  export const cut = (server: EmbeddedZooKeeper) => server.faults.cut('requests');
`;

/** The entry points without optional peer dependencies. */
const ENTRIES = ['', '/recipes', '/embedded', '/testing'].map(
  (entry) => `nestjs-zookeeper${entry}`,
);

/** Projects whose compiler finds the types in different ways. A compilation takes seconds, so only the first is usual. */
const PROJECTS: [name: string, file: string, flags: string[]][] = [
  ['an ESM project', 'orders.mts', ['--module', 'nodenext', '--skipLibCheck']],
  [
    'an ESM project without require() of ES modules',
    'orders.mts',
    ['--module', 'node16', '--skipLibCheck'],
  ],
  ['a CommonJS project', 'orders.cts', ['--module', 'node20', '--moduleResolution', 'node16']],
  [
    'a project whose module resolution ignores exports',
    'orders.ts',
    [
      '--module',
      'commonjs',
      '--moduleResolution',
      'node10',
      '--ignoreDeprecations',
      '6.0',
      '--skipLibCheck',
    ],
  ],
];

describe('the packed tarball', () => {
  let directory: string;
  let version: string;

  /** The paths in the tarball. */
  let packed: string[];

  // The dependencies are those of this repository, so that the test needs no registry.
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'nestjs-zookeeper-'));
    const pack = ['pack', '--dry-run', '--json', '--ignore-scripts'];
    // The home directory may not be writable, and a new cache makes npm ask the registry for a newer npm.
    const npm = { npm_config_cache: join(directory, 'cache'), npm_config_update_notifier: 'false' };
    const env = { ...process.env, ...npm };
    const reply = JSON.parse((await run('npm', pack, { cwd: root, env })).stdout) as object;
    // Since npm 12, the reply is an object.
    const [{ files }] = Object.values(reply) as [{ files: { path: string }[] }];
    packed = files.map(({ path }) => path);
    const modules = join(directory, 'node_modules');
    await mkdir(modules);
    for (const name of await readdir(join(root, 'node_modules'))) {
      if (!name.startsWith('.'))
        await symlink(join(root, 'node_modules', name), join(modules, name));
    }
    for (const path of packed) {
      await cp(join(root, path), join(modules, 'nestjs-zookeeper', path));
    }
    await writeFile(join(directory, 'package.json'), '{}');
    const own = await readFile(join(root, 'package.json'), 'utf8');
    ({ version } = JSON.parse(own) as { version: string });
  });

  afterAll(() => rm(directory, { recursive: true, force: true }));

  it.each([
    ['an ESM app', 'app.mjs', ESM],
    ['a CommonJS app', 'app.cjs', CJS],
  ])('runs in %s', async (_, file, imports) => {
    await writeFile(join(directory, file), imports + APP);
    const { stdout } = await run('node', [file], { cwd: directory });
    expect(JSON.parse(stdout)).toEqual({
      rises: true,
      recipes: 'function',
      embedded: 'function',
      version,
    });
  });

  it('is the same module for import and for require(), and has a CommonJS form with the same names', async () => {
    const imports = `
      import { createRequire } from 'node:module';
      const require = createRequire(import.meta.url);
      for (const entry of ${JSON.stringify(ENTRIES)}) {
        const [imported, required] = [await import(entry), require(entry)];
        const names = Object.keys(imported).filter((name) => imported[name] === required[name]);
        console.log(entry, names.sort().join());
      }`;
    // Test runners and bundlers load this form.
    const requires = `
      const { exports: entries } = require('nestjs-zookeeper/package.json');
      for (const entry of ${JSON.stringify(ENTRIES)}) {
        const { require: cjs } = entries[entry.replace('nestjs-zookeeper', '.')];
        const names = Object.keys(require('./node_modules/nestjs-zookeeper/' + cjs.default));
        console.log(entry, names.sort().join());
      }`;
    await writeFile(join(directory, 'both.mjs'), imports);
    await writeFile(join(directory, 'commonjs.cjs'), requires);
    const { stdout } = await run('node', ['both.mjs'], { cwd: directory });
    expect(stdout).toMatch(/^nestjs-zookeeper\/recipes .*\bMutex\b/m);
    expect((await run('node', ['commonjs.cjs'], { cwd: directory })).stdout).toBe(stdout);
  });

  it('fails with the two files if a program loads both forms', async () => {
    const source = `
      require('nestjs-zookeeper');
      require('./node_modules/nestjs-zookeeper/dist/cjs/recipes/index.js');`;
    await writeFile(join(directory, 'forms.cjs'), source);
    await expect(run('node', ['forms.cjs'], { cwd: directory })).rejects.toThrow(
      /is loaded both as ES modules \(file:.*dist\/client.*\) and as CommonJS \(file:.*dist\/cjs\//,
    );
  });

  it('contains the command-line program', async () => {
    const program = 'node_modules/nestjs-zookeeper/dist/cli/main.js';
    const { stdout } = await run('node', [program, '--help'], { cwd: directory });
    expect(stdout).toMatch(/^Usage: nestjs-zookeeper/);
  });

  it.each(process.env.NIGHTLY ? PROJECTS : PROJECTS.slice(0, 1))(
    'has types that compile in %s',
    async (_, file, modules) => {
      await writeFile(join(directory, file), TYPED);
      const compiler = join(root, 'node_modules/typescript/bin/tsc');
      const flags =
        '--noEmit --declaration --strict --experimentalDecorators --types node --target es2021'.split(
          ' ',
        );
      const { stdout } = await run('node', [compiler, ...flags, ...modules, file], {
        cwd: directory,
      }).catch((error: { stdout: string }) => error);
      expect(stdout).toBe('');
    },
  );

  it('contains the built library, README and LICENSE, but no sources, tests or sample', () => {
    expect(packed.filter((path) => !path.startsWith('dist/')).sort()).toEqual([
      'LICENSE',
      'README.md',
      'README.zh-CN.md',
      'package.json',
      'schematics/collection.json',
      'schematics/nest-add.cjs',
    ]);
  });
});
