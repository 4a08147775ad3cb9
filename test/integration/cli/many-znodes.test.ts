import { describe, expect, it } from 'vitest';
import { Mutex } from 'nestjs-zookeeper/recipes';
import { useCli } from '../../support/cli.js';
import { useClients } from '../../support/clients.js';
import { useServer } from '../../support/servers.js';

const server = useServer({ own: true });
const connect = useClients(server);
const cli = useCli(server);

describe('a scan of many znodes', () => {
  it('finds a lock among 10,000 znodes, and says that it does not read 20,000', async () => {
    const client = await connect();
    const session = await client.session();
    await session.create('/many');
    const create = async (from: number, to: number) => {
      for (let at = from; at < to; at += 500) {
        await Promise.all(Array.from({ length: 500 }, (_, i) => session.create(`/many/${at + i}`)));
      }
    };
    await create(0, 10_000);
    await new Mutex(client, '/many/9999/locks/gold').acquire();
    const found = await cli(['locks', '--json']).ended;
    expect([found.code, found.err]).toEqual([0, '']);
    expect(JSON.parse(found.out)).toMatchObject({ namespace: '/many/9999', key: 'gold' });

    await create(10_000, 20_500);
    const partial = await cli(['locks']).ended;
    expect(partial).toEqual({
      code: 1,
      out: 'no lock has a holder or a waiter under /, as far as it was read\n',
      err: 'nestjs-zookeeper: only a part of the znodes under / was read: at most 20000 znodes and 12 levels. Name a namespace with --namespace, or a znode further down with --path\n',
    });
    const refused = await cli(['revoke', 'gold']).ended;
    expect([refused.code, refused.out]).toEqual([1, '']);
    const within = await cli(['locks', '--namespace', '/many/9999']).ended;
    expect([within.code, within.err]).toEqual([0, '']);
    expect(within.out).toContain('gold');
  });
});
