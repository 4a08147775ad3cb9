import { describe, expect, test } from 'vitest';
import { ZkClient } from '../../../../lib/client/index.js';
import { useClients } from '../../../support/clients.js';
import { fourLetterWord } from '../../../support/real-zookeeper.js';
import { useServer } from '../../../support/servers.js';

// The native transport cannot remove watches, so this test is for the wire transport only.

const zk = useServer();
const connectAny = useClients(zk);
const connect = () => connectAny({ transport: 'wire' });

/** Returns the number of watches of both kinds; `wchs` omits child watches. */
async function watchCount(): Promise<number> {
  const answer = await fourLetterWord(zk.port, 'mntr');
  return Number(/zk_watch_count\s+(\d+)/.exec(answer)?.[1] ?? Number.NaN);
}

async function watchedNode(client: ZkClient, name: string) {
  const session = await client.session();
  const path = zk.path(name);
  await session.create(path);
  return { session, path, watches: await watchCount() };
}

describe('a watch without waiting callers', () => {
  test('is removed from the server, for each kind separately', async () => {
    const client = await connect();
    const { session, path, watches } = await watchedNode(client, 'kinds');
    const kinds = [
      (await session.get(path, { watch: true })).watch,
      (await session.exists(`${path}/none`, { watch: true })).watch,
      (await session.children(path, { watch: true })).watch,
    ];
    for (let left = kinds.length; left > 0; left--) {
      expect(await watchCount()).toBe(watches + left);
      kinds[left - 1].remove();
      await session.sync('/');
    }
    expect(await watchCount()).toBe(watches);
  });

  test('stays while another caller waits for it', async () => {
    const client = await connect();
    const { session, path, watches } = await watchedNode(client, 'shared');
    const one = (await session.get(path, { watch: true })).watch;
    const other = (await session.get(path, { watch: true })).watch;
    one.remove();
    await session.sync('/');
    expect(await watchCount()).toBe(watches + 1);
    await client.set(path, 'x');
    expect(await other.fired).toBe('changed');
  });

  test('stays while another caller is setting it, and that caller gets the event', async () => {
    const client = await connect();
    const { session, path, watches } = await watchedNode(client, 'race');
    const first = (await session.get(path, { watch: true })).watch;
    const asked = session.get(path, { watch: true });
    first.remove();
    const { watch } = await asked;
    expect(await watchCount()).toBe(watches + 1);
    await client.set(path, 'x');
    expect(await watch.fired).toBe('changed');
  });

  test('is removed if the caller that was setting it stops waiting too', async () => {
    const client = await connect();
    const { session, path, watches } = await watchedNode(client, 'both-leave');
    const first = (await session.get(path, { watch: true })).watch;
    const asked = session.get(path, { watch: true });
    first.remove();
    (await asked).watch.remove();
    await session.sync('/');
    expect(await watchCount()).toBe(watches);
  });

  test('is set again by a caller that asks right after its removal', async () => {
    const client = await connect();
    const { session, path } = await watchedNode(client, 'again');
    (await session.get(path, { watch: true })).watch.remove();
    const { watch } = await session.get(path, { watch: true });
    await client.set(path, 'x');
    expect(await watch.fired).toBe('changed');
  });

  test('is removed once if it fires at the same moment', async () => {
    const client = await connect();
    const { session, path, watches } = await watchedNode(client, 'fired');
    const { watch } = await session.get(path, { watch: true });
    const written = session.set(path, 'x');
    watch.remove();
    await written;
    await session.sync('/');
    expect(await watchCount()).toBe(watches);
    expect(session.alive).toBe(true);
  });
});
