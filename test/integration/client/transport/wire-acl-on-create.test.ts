import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import { NotAuthorizedError } from '../../../../lib/client/index.js';
import { useClients } from '../../../support/clients.js';
import { useServer } from '../../../support/servers.js';

const zk = useServer();
const connect = useClients(zk);

test('the wire transport creates a container with its ACL, so that other identities never add a child', async () => {
  const digest = createHash('sha1').update('owner:secret').digest('base64');
  const owner = await connect({
    transport: 'wire',
    auth: [{ scheme: 'digest', user: 'owner', password: 'secret' }],
    acl: [{ scheme: 'digest', id: `owner:${digest}`, permissions: 'rwcda' }],
  });
  const stranger = await (await connect({ transport: 'wire' })).session();

  for (let round = 0; round < 20; round++) {
    const path = zk.path('guarded');
    let over = false;
    // Tries to add a child from before the node exists, to hit a gap between the create and the
    // ACL.
    const attempts: Promise<unknown>[] = [];
    const intrude = (async () => {
      while (!over) {
        attempts.push(stranger.create(`${path}/intruder`).catch((error: unknown) => error));
        await new Promise(setImmediate);
      }
    })();
    await owner.ensureContainers(path);
    over = true;
    await intrude;
    expect(await stranger.create(`${path}/late`).catch((error: unknown) => error)).toBeInstanceOf(
      NotAuthorizedError,
    );
    const codes = (await Promise.all(attempts)).map((error) => (error as { code: string }).code);
    expect(codes.filter((code) => code !== 'NO_NODE' && code !== 'NOT_AUTHORIZED')).toEqual([]);
    expect((await owner.children(path)).children).toEqual([]);
  }
});
