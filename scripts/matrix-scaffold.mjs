// The parts of npm run matrix that run in an application of `nest new`: its test runner and its builders.
import { cp, readdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { install, root, run } from './packed.mjs';
import { serve, shell } from './scaffold.mjs';

const SOURCE = join(root, 'test/matrix/scaffold');
const SWC = {
  jsc: {
    parser: { syntax: 'typescript', decorators: true },
    transform: { legacyDecorator: true, decoratorMetadata: true },
  },
};

/**
 * The parts, by Nest. Each has the npm packages that it needs in addition to those of the scaffold, and its checks:
 * `prepare` runs once, on the current Node, `test` on each Node.
 */
export const SCAFFOLDS = {
  11: {
    jest: {
      packages: ['@swc/core@1', '@swc/jest@0.2'],
      checks: {
        'ts-jest': {
          test: async (app, node) => {
            await jest(app, node);
            await jest(app, node, 'test/jest-e2e.json');
          },
        },
        '@swc/jest': {
          test: async (app, node) => jest(app, node, await swcConfig(app)),
        },
      },
    },
    builders: {
      packages: ['@swc/core@1', '@swc/cli@0.8'],
      checks: {
        tsc: built('tsc'),
        swc: built('swc'),
        webpack: built('webpack'),
        bundle: bundled(),
      },
    },
    types: {
      packages: [],
      checks: {
        commonjs: strict({ module: 'commonjs', moduleResolution: 'node10' }),
        node16: strict({ module: 'node16', moduleResolution: 'node16' }),
      },
    },
  },
  12: {
    vitest: {
      packages: [],
      checks: {
        vitest: {
          test: async (app, node) => {
            await vitest(app, node, 'vitest.config.ts');
            await vitest(app, node, 'vitest.config.e2e.ts');
          },
        },
      },
    },
    builders: {
      packages: [
        ...['@swc/core@1', '@swc/cli@0.8', '@rspack/core@2'],
        ...['webpack-node-externals@3', 'tsconfig-paths-webpack-plugin@4'],
      ],
      // CLI 12 refuses webpack in an application of ES modules.
      checks: { tsc: built('tsc'), swc: built('swc'), rspack: built('rspack') },
    },
  },
};

/** Creates the application, installs the package and what the parts need in one go, and adds the source. */
export async function createScaffold(scratch, tarball, nest, parts) {
  await shell(
    `npx @nestjs/cli@${nest} new scaffold-${nest} --package-manager npm --skip-git --skip-install`,
    scratch,
  );
  const app = join(scratch, `scaffold-${nest}`);
  const packages = parts.flatMap((part) => SCAFFOLDS[nest][part].packages);
  await install(app, tarball, 'zookeeper@7', ...new Set(packages));
  for (const file of await readdir(SOURCE, { recursive: true })) {
    if (!file.endsWith('.ts') || (nest === 12 && file.endsWith('.jest.spec.ts'))) continue;
    const source = await readFile(join(SOURCE, file), 'utf8');
    await writeFile(join(app, file), nest === 12 ? forVitest(source) : source);
  }
  return app;
}

/** The source is CommonJS for Jest; Nest 12 creates an application of ES modules with Vitest. */
function forVitest(source) {
  return source.replaceAll(/'(\.[^']+)'/g, "'$1.js'").replaceAll(/\bjest\./g, 'vi.');
}

/** Writes the scaffold's configuration with another transform. Resolves to its file. */
async function swcConfig(app) {
  const { jest } = JSON.parse(await readFile(join(app, 'package.json'), 'utf8'));
  const transform = { [Object.keys(jest.transform)[0]]: ['@swc/jest', SWC] };
  const config = { ...jest, rootDir: '.', testRegex: 'spec\\.ts$', transform };
  await writeFile(join(app, 'jest-swc.json'), JSON.stringify(config));
  return 'jest-swc.json';
}

async function jest(app, node, config) {
  const args = ['--detectOpenHandles', ...(config ? ['--config', config] : [])];
  const { stderr } = await tests(app, node, 'jest/bin/jest.js', ...args);
  if (stderr.includes('open handle')) throw new Error(`tests left something open\n${stderr}`);
}

function vitest(app, node, config) {
  return tests(app, node, 'vitest/vitest.mjs', 'run', '--config', config);
}

async function tests(app, node, runner, ...args) {
  const env = {
    ...process.env,
    TRANSPORTS: (await hasNative(node)) ? 'wire,native' : 'wire',
    PATH: `${dirname(node)}:${process.env.PATH}`,
  };
  return run(node, [join('node_modules', runner), ...args], { cwd: app, env });
}

/** npm has compiled the native client for the Node that runs the matrix. */
async function hasNative(node) {
  const { stdout } = await run(node, ['-p', 'process.versions.modules']);
  return stdout.trim() === process.versions.modules;
}

/** Builds with a builder of the Nest CLI, and sells over HTTP. */
function built(builder, name = builder, options = '') {
  const output = `dist-${name}`;
  return {
    prepare: async (app) => {
      await shell(`npx nest build --builder ${builder} ${options}`, app);
      await cp(join(app, 'dist'), join(app, output), { recursive: true });
    },
    test: (app, node) => sell(app, node, join(output, 'main.js')),
  };
}

/** Builds one file with all packages inside, except those that Nest itself loads only where they are installed. */
function bundled() {
  const { prepare, test } = built('webpack', 'bundle', '--webpackPath webpack.bundle.js');
  const config = `
    const { IgnorePlugin } = require('webpack');
    const optional = /^(@nestjs\\/(microservices|websockets)|class-(validator|transformer))/;
    const isAbsent = (name) => optional.test(name);
    module.exports = (options) => ({
      ...options,
      externals: [],
      plugins: [...options.plugins, new IgnorePlugin({ checkResource: isAbsent })],
    });`;
  return {
    prepare: async (app) => {
      await writeFile(join(app, 'webpack.bundle.js'), config);
      await prepare(app);
    },
    test,
  };
}

/** Checks the types of the whole application, those of its packages included, and sells over HTTP. */
function strict(compilerOptions) {
  const name = `strict-${compilerOptions.module}`;
  const config = {
    extends: './tsconfig.json',
    compilerOptions: {
      ...compilerOptions,
      target: 'ES2021',
      strict: true,
      exactOptionalPropertyTypes: true,
      noUncheckedIndexedAccess: true,
      skipLibCheck: false,
      resolvePackageJsonExports: null,
      outDir: name,
      incremental: false,
    },
    include: ['src', 'test'],
  };
  return {
    prepare: async (app) => {
      await writeFile(join(app, `${name}.json`), JSON.stringify(config));
      await shell(`npx tsc -p ${name}.json`, app);
    },
    test: (app, node) => sell(app, node, join(name, 'src/main.js')),
  };
}

async function sell(app, node, main) {
  await serve([node, main], { cwd: app }, async (url) => {
    for (const [path, expected] of [
      ['east/close', 201],
      ['east/sell', 409],
      ['east/open', 201],
      ['east/sell', 201],
    ]) {
      const { status } = await fetch(`${url}/stock/${path}`, { method: 'POST' });
      if (status !== expected) throw new Error(`${path} answers ${status} instead of ${expected}`);
    }
  });
}
