import { writeFile, mkdir, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { inScratch, root, run as execute } from '../packed.mjs';
import { toJavaScript } from './compile.mjs';

const TIME_LIMIT = 60_000;

/** What the pages' first examples set up, on a server that is there; nothing outside is asked. */
const SETTING = `
  import { Mutex, ReadWriteLock } from 'nestjs-zookeeper/recipes';
  import { TestZooKeeper } from 'nestjs-zookeeper/testing';
  const zookeeper = await TestZooKeeper.embedded();
  const client = await zookeeper.client();
  const mutex = new Mutex(client, '/shop/locks/stock');
  Object.assign(globalThis, { zookeeper, client, mutex, Mutex, ReadWriteLock, fetch: async () => new Response() });
`;

/** Runs the blocks one after the other; rejects, naming the block, where one throws. */
export function run(blocks) {
  return inScratch(async (directory) => {
    await mkdir(join(directory, 'node_modules'));
    await symlink(root, join(directory, 'node_modules/nestjs-zookeeper'));
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
    await writeFile(main, [SETTING, ...steps, 'process.exit(0);'].join('\n'));
    await execute(process.execPath, [main], { timeout: TIME_LIMIT });
  });
}
