import { Test } from '@nestjs/testing';
import type { Library } from './types.js';

const warm = new WeakSet<Library>();

/** Loads what Nest and the library load on first use: a simulation must not wait for files. */
export async function warmUp(library: Library): Promise<void> {
  if (warm.has(library)) return;
  warm.add(library);
  const { TestZooKeeper } = library.testing;
  await using zookeeper = TestZooKeeper.inProcess();
  const imports = [library.nest.ZkModule.forRoot({ connectString: '127.0.0.1:1' })];
  const module = await zookeeper.override(Test.createTestingModule({ imports })).compile();
  await module.init();
  await module.close();
}
