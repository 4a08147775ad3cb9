import { describe, expect } from 'vitest';
import { LockService } from 'nestjs-zookeeper';
import { currentLease, LeaderLatch, type Lease, MultiLock, Mutex } from 'nestjs-zookeeper/recipes';
import { useClients } from '../../support/clients.js';
import { useApps } from '../../support/nest-apps.js';
import { useServer } from '../../support/servers.js';
import { it } from '../../support/virtual-time.js';

const server = useServer();
const connect = useClients(server);
const apps = useApps(server);

/** Returns what a JSON logger would write. */
function logged(lease: unknown): unknown {
  return JSON.parse(JSON.stringify({ lease })).lease;
}

function expectedJson({ key, path, fencingToken }: Lease, held: boolean) {
  return { key, path, held, fencingToken: String(fencingToken) };
}

describe('toJSON(), with the token as text,', () => {
  it('represents the lease of a lock, held and released', async () => {
    const mutex = new Mutex(await connect(), server.path('json'), { key: 'gold' });
    const lease = await mutex.withLock((held) => {
      expect(logged(held)).toEqual(expectedJson(held, true));
      expect(logged(currentLease())).toEqual(expectedJson(held, true));
      return held;
    });
    expect(logged(lease)).toEqual(expectedJson(lease, false));
  });

  it('represents the lease of several locks', async () => {
    const client = await connect();
    const path = server.path('json-all');
    const locks = ['a', 'b'].map((key) => new Mutex(client, `${path}/${key}`, { key }));
    await using lease = await new MultiLock(locks).acquire();
    expect(logged(lease)).toEqual({ ...expectedJson(lease, true), key: 'a, b' });
  });

  it('represents the lease of a service', async () => {
    const locks = (await apps.start({})).get(LockService);
    await using lease = await locks.acquire('gold');
    expect(logged(lease)).toEqual({ ...expectedJson(lease, true), key: 'gold' });
    await using both = await locks.acquire(['silver', 'tin']);
    expect(logged(both)).toEqual({ ...expectedJson(both, true), key: 'silver, tin' });
  });

  it('represents a term', async () => {
    const path = server.path('json-term');
    const latch = new LeaderLatch(await connect(), path, { key: 'billing' });
    latch.start();
    const term = await latch.await();
    const fencingToken = String(term.fencingToken);
    const expected = { election: 'billing', path, active: true, fencingToken };
    expect(logged(term)).toEqual(expected);
    await latch.close();
    expect(logged(term)).toEqual({ ...expected, active: false });
  });
});
