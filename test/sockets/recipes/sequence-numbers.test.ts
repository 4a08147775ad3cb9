import { Mutex, SequenceExhaustedError, ZkClient } from 'nestjs-zookeeper/recipes';
import { expect, it, onTestFinished } from 'vitest';
import { resolveOptions } from '../../../lib/embedded/options.js';
import { ServerThread } from '../../../lib/embedded/server-thread.js';
import { untilNodes } from '../../support/recipe-nodes.js';

// The server starts with a create counter near 2^31, because a test cannot create that many znodes.

it('sequence numbers cause a warning when half of them are used, an error at the last one, and restart with a new parent', async () => {
  const options = resolveOptions({});
  const path = '/used-up';
  let thread = await ServerThread.start({ options, saved: undefined });
  const connected = async (): Promise<ZkClient> => {
    const client = new ZkClient({ connectString: `127.0.0.1:${thread.port}` });
    await client.connect();
    return client;
  };
  const restart = async (created: number) => {
    const saved = await thread.stop();
    saved.nodes.get(path)!.created = created;
    thread = await ServerThread.start({ options, saved });
    return connected();
  };
  let client = await connected();
  // Not a container, because it must be empty for a while.
  await client.create(path);
  await client.close();

  client = await restart(2 ** 30 - 1);
  await new Mutex(client, path).withLock(() => undefined);
  const warnings: Error[] = [];
  const onWarning = (warning: Error) => warnings.push(warning);
  process.on('warning', onWarning);
  onTestFinished(() => void process.off('warning', onWarning));
  for (const _ of [1, 2]) await new Mutex(client, path).withLock(() => undefined);
  expect(warnings).toMatchObject([{ code: 'ZK_SEQUENCE_HALF_USED' }]);
  expect(warnings[0]!.message).toContain(path);
  await client.close();

  client = await restart(2 ** 31 - 2);
  await new Mutex(client, path).withLock(() => undefined);
  for (let tries = 0; tries < 3; tries++) {
    await expect(new Mutex(client, path).acquire()).rejects.toThrow(SequenceExhaustedError);
  }
  await untilNodes(client, path, 0);
  await client.delete(path);
  await new Mutex(client, path).withLock(() => undefined);
  await client.close();
  await thread.stop();
});
