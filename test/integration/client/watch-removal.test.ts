import { describe, expect } from 'vitest';
import { ZkClient } from '../../../lib/client/index.js';
import { useClients } from '../../support/clients.js';
import { useServer } from '../../support/servers.js';
import { it } from '../../support/virtual-time.js';

const zk = useServer();
const connect = useClients(zk);

async function watchedNode(client: ZkClient, name: string) {
  const session = await client.session();
  const path = zk.path(name);
  await session.create(path);
  return { session, path, watches: await zk.watchCount() };
}

// A test waits for the removal by exists('/'), which, unlike a sync, is not sent before the removal.
describe('a watch without waiting callers', () => {
  it('is removed from the server, for each kind separately', async () => {
    const client = await connect();
    const { session, path, watches } = await watchedNode(client, 'kinds');
    const kinds = [
      (await session.get(path, { watch: true })).watch,
      (await session.exists(`${path}/none`, { watch: true })).watch,
      (await session.children(path, { watch: true })).watch,
    ];
    for (let left = kinds.length; left > 0; left--) {
      expect(await zk.watchCount()).toBe(watches + left);
      kinds[left - 1].remove();
      await session.exists('/');
    }
    expect(await zk.watchCount()).toBe(watches);
  });

  it('stays while another caller waits for it', async () => {
    const client = await connect();
    const { session, path, watches } = await watchedNode(client, 'shared');
    const one = (await session.get(path, { watch: true })).watch;
    const other = (await session.get(path, { watch: true })).watch;
    one.remove();
    await session.exists('/');
    expect(await zk.watchCount()).toBe(watches + 1);
    await client.set(path, 'x');
    expect(await other.fired).toBe('changed');
  });

  it('stays while another caller is setting it, and that caller gets the event', async () => {
    const client = await connect();
    const { session, path, watches } = await watchedNode(client, 'race');
    const first = (await session.get(path, { watch: true })).watch;
    const asked = session.get(path, { watch: true });
    first.remove();
    const { watch } = await asked;
    expect(await zk.watchCount()).toBe(watches + 1);
    await client.set(path, 'x');
    expect(await watch.fired).toBe('changed');
  });

  it('is removed if the caller that was setting it stops waiting too', async () => {
    const client = await connect();
    const { session, path, watches } = await watchedNode(client, 'both-leave');
    const first = (await session.get(path, { watch: true })).watch;
    const asked = session.get(path, { watch: true });
    first.remove();
    (await asked).watch.remove();
    await session.exists('/');
    expect(await zk.watchCount()).toBe(watches);
  });

  it('is set again by a caller that asks right after its removal', async () => {
    const client = await connect();
    const { session, path } = await watchedNode(client, 'again');
    (await session.get(path, { watch: true })).watch.remove();
    const { watch } = await session.get(path, { watch: true });
    await client.set(path, 'x');
    expect(await watch.fired).toBe('changed');
  });

  it('is removed once if it fires at the same moment', async () => {
    const client = await connect();
    const { session, path, watches } = await watchedNode(client, 'fired');
    const { watch } = await session.get(path, { watch: true });
    const written = session.set(path, 'x');
    watch.remove();
    await written;
    await session.exists('/');
    expect(await zk.watchCount()).toBe(watches);
    expect(session.alive).toBe(true);
  });
});
