import { mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { inScratch, root, run as execute } from '../packed.mjs';
import { toJavaScript } from './compile.mjs';

const TIME_LIMIT = 60_000;

/** Declares the names that the pages' first examples set up, on an in-process or embedded server. */
const PRELUDE = `
  import { Mutex, ReadWriteLock } from 'nestjs-zookeeper/recipes';
  import { TestZooKeeper } from 'nestjs-zookeeper/testing';
  const zookeeper = await TestZooKeeper.embedded();
  const client = await zookeeper.client();
  const mutex = new Mutex(client, '/shop/locks/stock');
  Object.assign(globalThis, { zookeeper, client, mutex, Mutex, ReadWriteLock, fetch: async () => new Response() });
`;

/** Runs the blocks one after the other. Rejects if one throws; the error names the block. */
export function run(blocks) {
  return inScratch(async (directory) => {
    await linkPackages(directory, []);
    const steps = blocks.map((block, index) => {
      const place = JSON.stringify(`${block.page}:${block.line}`);
      return `console.error(${place}); await import('./block-${index}.mjs');`;
    });
    for (const [index, block] of blocks.entries()) {
      const code = toJavaScript(block).replace(
        /'(localhost|zk1):2181.*?'/g,
        'zookeeper.connectString',
      );
      await writeFile(join(directory, `block-${index}.mjs`), code);
    }
    const main = join(directory, 'main.mjs');
    await writeFile(main, [PRELUDE, ...steps, 'process.exit(0);'].join('\n'));
    await execute(process.execPath, [main], { timeout: TIME_LIMIT });
  });
}

/** Runs blocks that are Vitest tests. Rejects if a test that should pass fails, or the other way round. */
export function runTests(blocks) {
  return inScratch(async (directory) => {
    await linkPackages(directory, ['vitest', '@nestjs', 'reflect-metadata', 'rxjs']);
    for (const [index, block] of blocks.entries()) {
      await writeFile(join(directory, `block-${index}.test.mjs`), toJavaScript(block));
    }
    const report = join(directory, 'report.json');
    const vitest = join(root, 'node_modules/vitest/vitest.mjs');
    const options = ['--testTimeout', `${TIME_LIMIT}`, '--reporter=json', '--outputFile', report];
    // Vitest exits with 1, because some tests fail as the page says.
    const output = await execute(process.execPath, [vitest, 'run', '--root', directory, ...options])
      .then(({ stderr }) => stderr)
      .catch(({ message }) => message);
    const text = await readFile(report, 'utf8').catch(() => {
      throw new Error(output);
    });
    const { testResults } = JSON.parse(text);
    const wrong = blocks.flatMap((block, index) => {
      const { assertionResults = [], message = 'its tests did not run' } =
        testResults.find(({ name }) => name.endsWith(`block-${index}.test.mjs`)) ?? {};
      const problem = unexpected(block, assertionResults, message);
      return problem ? [`${block.page}:${block.line} ${problem}`] : [];
    });
    if (wrong.length > 0) throw new Error(wrong.join('\n'));
  });
}

/** The title of a test with many seeds is its name, a comma and the seed; one failing seed is enough. */
function unexpected({ fails }, results, message) {
  if (results.length === 0) return message;
  const shouldFail = ({ title }) => fails !== undefined && title.split(',')[0] === fails;
  const failed = results.filter(({ status }) => status !== 'passed');
  const surprise = failed.find((result) => !shouldFail(result));
  if (surprise) return `${surprise.title}: ${surprise.failureMessages.join('\n')}`;
  return fails === undefined || failed.length > 0 ? undefined : `no test "${fails}" fails`;
}

/** Lets code in the directory import this package and some of its development dependencies. */
async function linkPackages(directory, names) {
  const modules = join(directory, 'node_modules');
  await mkdir(modules);
  await symlink(root, join(modules, 'nestjs-zookeeper'));
  for (const name of names) await symlink(join(root, 'node_modules', name), join(modules, name));
}
