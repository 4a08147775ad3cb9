import { describe, expect } from 'vitest';
import { BadOptionError } from '../../../lib/client/index.js';
import { useClients } from '../../support/clients.js';
import { useServer } from '../../support/servers.js';
import { it } from '../../support/virtual-time.js';

const zk = useServer();
const connect = useClients(zk);

describe('a znode with a TTL', () => {
  it('is deleted after its TTL, unless it is written before', async () => {
    const client = await connect();
    const root = await client.create(zk.path('ttl'));
    const idle = await client.create(`${root}/idle`, 'data', { ttl: 1 });
    const mode = 'persistent-sequential';
    const written = await client.create(`${root}/n-`, 'data', { mode, ttl: 600_000 });
    expect(written).toBe(`${root}/n-0000000001`);
    await expect.poll(() => client.exists(idle)).toBeUndefined();
    expect((await client.get(written)).data.toString()).toBe('data');
  });

  it('can be created by a transaction', async () => {
    const client = await connect();
    const root = await client.create(zk.path('ttl-transaction'));
    const results = await client.transaction([
      { create: `${root}/a`, ttl: 1 },
      { create: `${root}/b`, data: 'b' },
    ]);
    expect(results).toEqual([`${root}/a`, `${root}/b`]);
    await expect.poll(() => client.exists(`${root}/a`)).toBeUndefined();
    expect((await client.children(root)).children).toEqual(['b']);
  });

  it.each([
    [{ ttl: 0 }, 'ttl'],
    [{ ttl: 1.5 }, 'ttl'],
    [{ ttl: 2 ** 31 }, 'ttl'],
    [{ ttl: '1' }, 'ttl'],
    [{ ttl: 1, mode: 'ephemeral' }, 'ttl'],
    [{ ttl: 1, mode: 'container' }, 'ttl'],
  ])('is refused with %j', async (options, option) => {
    const client = await connect();
    const error = await client.create(zk.path('bad-ttl'), '', options as object).catch((e) => e);
    expect(error).toBeInstanceOf(BadOptionError);
    expect(error).toMatchObject({ option });
  });
});
