import { describe, expect, test } from 'vitest';
import { AddWatchMode, ErrorCode, EventType } from '../../../lib/protocol/index.js';
import { type Caller, DataTree } from '../../../lib/embedded/data-tree.js';
import { PROFILES } from '../../../lib/embedded/profiles.js';
import { addWatch, type Watcher } from '../../../lib/embedded/watches.js';
import { KeeperError, OPEN_ACL, type ZnodeKind } from '../../../lib/embedded/znode.js';
import { randomFrom } from '../../support/server-script-random.js';

const caller: Caller = { session: 1n, identities: [] };

class Fixture {
  readonly tree = new DataTree(PROFILES.zookeeper);
  #zxid = 100;

  at() {
    return { zxid: ++this.#zxid, time: this.#zxid * 10 };
  }

  create(path: string, kind: ZnodeKind = 'persistent', sequential = false, session = 1n): string {
    const creation = { path, data: Buffer.from('x'), acl: OPEN_ACL, kind, sequential, ttl: 50 };
    return this.tree.create(creation, { ...caller, session }, this.at()).path;
  }

  delete(path: string): void {
    this.tree.delete(path, -1, caller, this.at());
  }
}

const recorder = () => {
  const seen: string[] = [];
  const watcher: Watcher = { notify: (type, path) => seen.push(`${type} ${path}`) };
  return { seen, watcher };
};

describe('The data tree', () => {
  test('uses a parent’s number of creates for sequence numbers and its number of changes for cversion', () => {
    const f = new Fixture();
    expect(f.tree.exists('/')).toMatchObject({ cversion: -1, numChildren: 1 });
    f.create('/q');
    expect(f.create('/q/n-', 'persistent', true)).toBe('/q/n-0000000000');
    f.delete('/q/n-0000000000');
    f.create('/q/named');
    expect(f.create('/q/n-', 'persistent', true)).toBe('/q/n-0000000002');
    expect(f.tree.exists('/q')).toMatchObject({ cversion: 4, numChildren: 2, version: 0 });
  });

  test('repeats the last sequence number for ever, as ZooKeeper does', () => {
    const f = new Fixture();
    f.create('/q');
    f.tree.nodes.get('/q')!.created = 0x7fff_fffe;
    expect(f.create('/q/n-', 'persistent', true)).toBe('/q/n-2147483646');
    const { pzxid } = f.tree.exists('/q');
    expect(f.create('/q/a-', 'persistent', true)).toBe('/q/a-2147483647');
    expect(f.create('/q/b-', 'persistent', true)).toBe('/q/b-2147483647');
    expect(() => f.create('/q/b-', 'persistent', true)).toThrow(
      expect.objectContaining({ code: ErrorCode.nodeExists }),
    );
    expect(f.tree.exists('/q').pzxid).toBe(pzxid);
  });

  test('deletes the ephemeral nodes of one session only', () => {
    const f = new Fixture();
    f.create('/mine', 'ephemeral', false, 1n);
    f.create('/theirs', 'ephemeral', false, 2n);
    f.create('/stays');
    const { pzxid } = f.tree.exists('/');
    f.tree.removeEphemerals(1n, f.at());
    expect(f.tree.exists('/').pzxid).toBeGreaterThan(pzxid);
    f.tree.removeEphemerals(1n, f.at());
    expect([...f.tree.nodes.keys()].filter((path) => !path.startsWith('/zoo'))).toEqual(
      expect.arrayContaining(['/theirs', '/stays']),
    );
    expect(f.tree.nodes.has('/mine')).toBe(false);
    expect(f.tree.ephemerals).toEqual(new Map([[2n, new Set(['/theirs'])]]));
  });

  // The order is that of ZooKeeper 3.8.
  test('lists children in ZooKeeper’s order, and not in that of their creation', () => {
    const f = new Fixture();
    f.create('/q');
    const numbers = () =>
      f.tree.getChildren('/q', caller).children.map((name) => Number(name.slice('lock-'.length)));
    for (let i = 0; i < 14; i++) f.create('/q/lock-', 'persistent', true);
    expect(numbers()).toEqual([9, 8, 7, 6, 1, 12, 0, 11, 10, 5, 4, 3, 2, 13]);
    for (const i of [0, 1, 2, 3, 4, 5, 6, 7]) f.delete(`/q/lock-000000000${i}`);
    expect(numbers()).toEqual([9, 8, 12, 11, 10, 13]);
  });

  test('notifies a watcher of a deletion once, then the watcher of the parent', () => {
    const f = new Fixture();
    const { seen, watcher } = recorder();
    f.create('/p');
    f.create('/p/c');
    f.tree.getData('/p/c', caller, watcher);
    f.tree.getChildren('/p/c', caller, watcher);
    f.tree.getChildren('/p', caller, watcher);
    f.delete('/p/c');
    expect(seen).toEqual([`${EventType.deleted} /p/c`, `${EventType.childrenChanged} /p`]);
    expect(f.tree.dataWatches.counts).toEqual({ watchers: 0, paths: 0, total: 0 });
    expect(f.tree.childWatches.counts).toEqual({ watchers: 0, paths: 0, total: 0 });
  });

  test('removes every watch of a closed connection', () => {
    const f = new Fixture();
    const { seen, watcher } = recorder();
    for (const path of ['/a', '/b', '/c']) {
      f.create(path);
      f.tree.exists(path, watcher);
      f.tree.getChildren(path, caller, watcher);
    }
    expect(f.tree.dataWatches.counts.total + f.tree.childWatches.counts.total).toBe(6);
    f.tree.forgetWatcher(watcher);
    f.delete('/a');
    expect(seen).toEqual([]);
    expect(f.tree.dataWatches.counts.paths + f.tree.childWatches.counts.paths).toBe(0);
  });

  test('finds the nodes that ZooKeeper would reap', () => {
    const f = new Fixture();
    f.create('/never-used', 'container');
    f.create('/in-use', 'container');
    f.create('/in-use/child');
    f.create('/emptied', 'container');
    f.create('/emptied/child');
    f.delete('/emptied/child');
    f.create('/ttl', 'ttl');
    const { mtime } = f.tree.exists('/ttl');
    expect(f.tree.expiredPaths(mtime + 50)).toEqual(['/emptied']);
    expect(f.tree.expiredPaths(mtime + 51)).toEqual(['/emptied', '/ttl']);
    for (const path of f.tree.expiredPaths(mtime + 51)) f.tree.reap(path, f.at());
    expect(f.tree.expiredPaths(Infinity)).toEqual([]);
  });

  test('is equal after its nodes were cloned', () => {
    const f = new Fixture();
    f.create('/e', 'ephemeral');
    f.create('/c', 'container');
    f.create('/c/x');
    f.delete('/c/x');
    const copy = new DataTree(f.tree.profile, structuredClone(f.tree.nodes));
    expect(copy.exists('/')).toEqual(f.tree.exists('/'));
    expect(copy.exists('')).toEqual(copy.exists('/'));
    expect(copy.expiredPaths(0)).toEqual(['/c']);
    copy.removeEphemerals(1n, f.at());
    expect(copy.nodes.has('/e')).toBe(false);
    expect(f.tree.nodes.has('/e')).toBe(true);
  });

  test.each([1, 2, 3])(
    'is unchanged after a failed multi with random operations, seed %i',
    (seed) => {
      const f = new Fixture();
      const random = randomFrom(seed);
      const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)];
      const kinds = ['persistent', 'ephemeral', 'container', 'ttl'] as const;
      const anything = () => {
        const path = pick(['/a', '/a/b', '/a/b/c', '/d', '/d/e']);
        const work = pick([
          () => f.create(path, pick(kinds), random() < 0.3, pick([1n, 2n])),
          () => f.tree.setData(path, Buffer.from(String(random())), -1, caller, f.at()),
          () => f.delete(path),
        ]);
        try {
          work();
        } catch (error) {
          expect(error).toBeInstanceOf(KeeperError);
        }
      };
      for (let round = 0; round < 50; round++) {
        for (let i = 0; i < 5; i++) anything();
        const { seen, watcher } = recorder();
        addWatch(f.tree, '/', AddWatchMode.persistentRecursive, watcher);
        const look = () =>
          structuredClone({
            nodes: f.tree.nodes,
            ephemerals: f.tree.ephemerals,
            reapable: f.tree.expiredPaths(Infinity).sort(),
          });
        const before = look();
        const multi = () =>
          f.tree.atomically(() => {
            for (let i = 0; i < 10; i++) anything();
            throw new KeeperError(ErrorCode.noNode);
          });
        expect(multi).toThrow(KeeperError);
        expect(look()).toEqual(before);
        expect(seen).toEqual([]);
        f.tree.forgetWatcher(watcher);
      }
    },
  );
});
