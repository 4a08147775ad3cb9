import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const run = promisify(execFile);
const root = join(import.meta.dirname, '../..');
/** Time limit in milliseconds for programs that download from a registry. */
const INSTALLING = 600_000;

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
  import { DistributedLock, type Lease, LockService, ZkModule } from 'nestjs-zookeeper';
  import { Mutex } from 'nestjs-zookeeper/recipes';
  import { EmbeddedZooKeeper } from 'nestjs-zookeeper/embedded';
  import { SharedLock } from 'nestjs-zookeeper/teaching';
  import { TestZooKeeper } from 'nestjs-zookeeper/testing';

  export class Orders {
    constructor(private readonly locks: LockService) {}
    @DistributedLock((id: number) => \`order-\${id}\`)
    async pay(id: number): Promise<bigint> {
      return this.locks.withLock('ledger', (lease: Lease) => lease.fencingToken + BigInt(id));
    }
  }
  export const parts = [ZkModule.forRoot({ connectString: 'localhost' }), Mutex, EmbeddedZooKeeper];
  export const more = [SharedLock, TestZooKeeper];
`;

/** The entry points without optional peer dependencies. */
const ENTRIES = ['', '/recipes', '/embedded', '/testing', '/teaching'].map(
  (entry) => `nestjs-zookeeper${entry}`,
);

describe('the packed tarball', () => {
  let directory: string;
  let version: string;

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'nestjs-zookeeper-'));
    const { stdout } = await run(
      'npm',
      ['pack', '--json', '--ignore-scripts', '--pack-destination', directory],
      { cwd: root },
    );
    const packed = JSON.parse(stdout) as unknown;
    const [{ filename }] = (Array.isArray(packed) ? packed : Object.values(packed as object)) as [
      { filename: string },
    ];
    const own = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as {
      version: string;
      devDependencies: Record<string, string>;
    };
    version = own.version;
    const fromOurs = (names: string[]) =>
      Object.fromEntries(names.map((name) => [name, own.devDependencies[name]]));
    await writeFile(
      join(directory, 'package.json'),
      JSON.stringify({
        private: true,
        allowScripts: { zookeeper: true },
        dependencies: {
          'nestjs-zookeeper': `file:${filename}`,
          ...fromOurs([
            '@nestjs/common',
            '@nestjs/core',
            'reflect-metadata',
            'rxjs',
            'typescript',
            '@types/node',
          ]),
        },
      }),
    );
    await run('npm', ['install', '--prefer-offline', '--no-audit', '--no-fund'], {
      cwd: directory,
    });
  }, INSTALLING);

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

  it('is the same module for import and for require()', async () => {
    const source = `
      import { createRequire } from 'node:module';
      const require = createRequire(import.meta.url);
      for (const entry of ${JSON.stringify(ENTRIES)}) {
        const [imported, required] = [await import(entry), require(entry)];
        for (const name in imported) if (imported[name] !== required[name]) console.log(entry, name);
      }`;
    await writeFile(join(directory, 'both.mjs'), source);
    const { stdout } = await run('node', ['both.mjs'], { cwd: directory });
    expect(stdout).toBe('');
  });

  it('has a CommonJS form with the same names, for test runners and bundlers', async () => {
    const source = `
      const { exports: entries } = require('nestjs-zookeeper/package.json');
      for (const entry of ${JSON.stringify(ENTRIES)}) {
        const { require: cjs } = entries[entry.replace('nestjs-zookeeper', '.')];
        console.log(entry, Object.keys(require('./node_modules/nestjs-zookeeper/' + cjs.default)).join());
      }`;
    const esm = await Promise.all(
      ENTRIES.map(async (entry) => `${entry} ${Object.keys(await import(entry)).join()}`),
    );
    await writeFile(join(directory, 'commonjs.cjs'), source);
    const { stdout } = await run('node', ['commonjs.cjs'], { cwd: directory });
    const sorted = (line: string) => line.split(/[ ,]/).sort().join();
    expect(stdout.trim().split('\n').map(sorted)).toEqual(esm.map(sorted));
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
    const { stdout } = await run('npx', ['nestjs-zookeeper', '--help'], { cwd: directory });
    expect(stdout).toMatch(/^Usage: nestjs-zookeeper/);
  });

  it.each([
    ['an ESM project', 'orders.mts', ['--module', 'nodenext']],
    ['an ESM project without require() of ES modules', 'orders.mts', ['--module', 'node16']],
    ['a CommonJS project', 'orders.cts', ['--module', 'node20', '--moduleResolution', 'node16']],
    [
      'a project whose module resolution ignores exports',
      'orders.ts',
      ['--module', 'commonjs', '--moduleResolution', 'node10', '--ignoreDeprecations', '6.0'],
    ],
  ])('has types that compile in %s', async (_, file, modules) => {
    await writeFile(join(directory, file), TYPED);
    const { stdout } = await run(
      'npx',
      [
        'tsc',
        '--noEmit',
        '--strict',
        '--experimentalDecorators',
        '--types',
        'node',
        '--target',
        'es2021',
        ...modules,
        file,
      ],
      { cwd: directory },
    ).catch((error: { stdout: string }) => error);
    expect(stdout).toBe('');
  });

  it('contains the built library, README, CHANGELOG and LICENSE, but no sources, tests or sample', async () => {
    const { stdout } = await run('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], {
      cwd: root,
    });
    const packed = JSON.parse(stdout) as unknown;
    const [{ files }] = (Array.isArray(packed) ? packed : Object.values(packed as object)) as [
      { files: { path: string }[] },
    ];
    const outside = files
      .map(({ path }) => path)
      .filter((path) => !path.startsWith('dist/'))
      .sort();
    expect(outside).toEqual([
      'CHANGELOG.md',
      'LICENSE',
      'README.md',
      'README.zh-CN.md',
      'package.json',
      'schematics/collection.json',
      'schematics/nest-add.cjs',
    ]);
  });
});
