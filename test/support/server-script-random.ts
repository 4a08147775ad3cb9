import {
  type Acl,
  AddWatchMode,
  CreateFlag,
  OpCode,
  WatcherType,
} from '../../lib/protocol/index.js';
import { type MultiStep, steps } from './multi-records.js';
import type { RecordedClient } from './recorded-client.js';
import type { Recorder } from './server-recorder.js';

export const PATHS = [
  '/r',
  '/r/a',
  '/r/b',
  '/r/a/x',
  '/r/a/y',
  '/r/b/x',
  '/q',
  '/q/a',
  '/r/a/x/deep',
];
/** Only read, because a change by one seed would be visible to the next. */
const EVERYWHERE = [...PATHS, '/', '', '/zookeeper', '/zookeeper/config', '/none/at/all'];
const VERSIONS = [-1, -1, -1, 0, 1, 2];
const FLAGS = [
  CreateFlag.persistent,
  CreateFlag.ephemeral,
  CreateFlag.sequential,
  CreateFlag.ephemeralSequential,
];

const ACLS: readonly (readonly Acl[])[] = [
  [{ perms: 31, scheme: 'world', id: 'anyone' }],
  [{ perms: 31, scheme: 'world', id: 'anyone' }],
  [{ perms: 31, scheme: 'auth', id: '' }],
  [
    { perms: 1, scheme: 'world', id: 'anyone' },
    { perms: 30, scheme: 'auth', id: '' },
  ],
  [{ perms: 27, scheme: 'ip', id: '127.0.0.0/8' }],
  [{ perms: 31, scheme: 'ip', id: '10.1.1.1' }],
  [],
];

/** Returns a generator of numbers from 0 to below 1 that depend on the seed alone (mulberry32). */
export function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Four sessions take turns with random operations. Any reply is right if both servers send it. */
export async function randomOperations(
  server: Recorder,
  seed: number,
  count: number,
): Promise<void> {
  const random = randomFrom(seed);
  const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)];
  const path = () => pick(PATHS);
  const anywhere = () => pick(EVERYWHERE);
  const version = () => pick(VERSIONS);
  const clients: RecordedClient[] = [];
  for (const name of ['a', 'b', 'c', 'd']) clients.push(await server.connect(name));
  // An ACL of scheme `auth` lists all identities of the client; with two of them the order is that
  // of a hash table.
  for (const [i, client] of clients.slice(1).entries()) await client.auth(`user${i % 2}:secret`);

  const data = () => `data ${Math.floor(random() * 1000)}`;
  const step = (): MultiStep =>
    pick<() => MultiStep>([
      () => steps.create(path(), { flags: pick(FLAGS), data: data() }),
      () => steps.create(path(), { flags: CreateFlag.container, type: OpCode.createContainer }),
      () => steps.createTtl(path(), 2 ** 39),
      () => steps.set(path(), data(), version()),
      () => steps.set(path(), data()),
      () => steps.delete(path(), version()),
      () => steps.check(path(), version()),
    ])();
  const reading = () => (random() < 0.5 ? steps.get(anywhere()) : steps.children(anywhere()));
  const some = (make: () => MultiStep) =>
    Array.from({ length: 1 + Math.floor(random() * 4) }, () => make());

  for (let i = 0; i < count; i++) {
    const zk = pick(clients);
    const watch = random() < 0.3;
    await pick<() => Promise<unknown>>([
      () => zk.create(path(), { flags: pick(FLAGS) }, 'any'),
      () => zk.create(path(), { flags: pick(FLAGS), op: OpCode.create2 }, 'any'),
      () => zk.create(path(), { acl: [...pick(ACLS)], data: data() }, 'any'),
      () => zk.create(path(), { op: OpCode.createTTL, flags: CreateFlag.ttl, ttl: 2 ** 39 }, 'any'),
      () => zk.set(path(), data(), version(), 'any'),
      () => zk.delete(path(), version(), 'any'),
      () => zk.delete(path(), -1, 'any'),
      () => zk.exists(anywhere(), watch, 'any'),
      () => zk.get(anywhere(), watch, 'any'),
      () => zk.children2(anywhere(), watch, 'any'),
      () => zk.children(anywhere(), watch, 'any'),
      () => zk.getAcl(anywhere(), 'any'),
      () => zk.setAcl(path(), [...pick(ACLS)], version(), 'any'),
      () => zk.multi(some(step), 'any'),
      () => zk.multi(some(step), 'any'),
      () => zk.multi(some(reading), 'any', OpCode.multiRead),
      () => zk.addWatch(anywhere(), pick(Object.values(AddWatchMode)), 'any'),
      () => zk.checkWatches(anywhere(), pick(Object.values(WatcherType)), 'any'),
      () => zk.removeWatches(anywhere(), pick(Object.values(WatcherType)), 'any'),
      () => zk.ephemerals(anywhere()),
      () => zk.countBelow(anywhere(), 'any'),
      () => zk.whoAmI(),
      () => zk.sync(anywhere()),
    ])();
  }
  for (const client of clients) await client.ping();
}
