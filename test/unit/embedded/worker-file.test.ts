import { expect, test, vi } from 'vitest';
import { EmbeddedZooKeeper } from 'nestjs-zookeeper/embedded';

vi.mock(import('node:fs'), async (importOriginal) => ({
  ...(await importOriginal()),
  existsSync: () => false,
}));

test('Without a build the embedded server fails to start, and the error says what to do', async () => {
  await expect(EmbeddedZooKeeper.start()).rejects.toThrow(
    /thread is not at .*dist\/embedded\/worker\.js: build the package first \(npm run build\)/,
  );
});
