import { describe, expect, vi } from 'vitest';
import {
  BadOptionError,
  currentLease,
  IllegalStateError,
  LeaseLostError,
  RecipeConflictError,
  type ZkClient,
} from 'nestjs-zookeeper/recipes';
import {
  type Partition,
  PartitionCountError,
  Partitioner,
  PartitionReleasedError,
} from 'nestjs-zookeeper/coordination';
import type { PartitionerOptions } from '../../../lib/coordination/recipes/partitioner-options.js';
import { aborted, expire, useClients, useLinks } from '../../support/clients.js';
import { nodesUnder, observed, untilNodes, untilNothingLeft } from '../../support/recipe-nodes.js';
import { useServer } from '../../support/servers.js';
import { beforeEach, afterEach, it } from '../../support/virtual-time.js';

const server = useServer();
const newLink = useLinks(server);
const connect = useClients(server);

let path: string;
let client: ZkClient;
beforeEach(async () => {
  path = server.path('partitioner');
  client = await connect();
});

const open: Partitioner[] = [];
afterEach(() => Promise.all(open.splice(0).map((each) => each.close())));

function opened(partitioner: Partitioner): Partitioner {
  open.push(partitioner);
  return partitioner;
}

const untilAborted = ({ signal }: Partition) => aborted(signal);

interface Member {
  readonly client: ZkClient;
  readonly partitioner: Partitioner;
  readonly errors: unknown[];
  /** The partitions whose handler was called, in order. */
  readonly begun: Partition[];
}

/** Returns how many partitions each of the members owns. */
const ownedBy = (members: readonly Member[]) =>
  members.map(({ partitioner }) => partitioner.owned().length);

/** A group of members with 8 partitions, each with a client of its own. */
function group(name: string, options: Partial<PartitionerOptions> = {}) {
  const path = server.path(name);
  const join = async (id: string, more: Partial<PartitionerOptions> = {}): Promise<Member> => {
    const client = await connect();
    const errors: unknown[] = [];
    const begun: Partition[] = [];
    const handler = (partition: Partition) => {
      begun.push(partition);
      return untilAborted(partition);
    };
    const onError = (error: unknown) => errors.push(error);
    const all = { partitions: 8, rebalanceDelay: 20, id, onError, ...options, ...more };
    const partitioner = opened(new Partitioner(client, path, handler, all));
    partitioner.start();
    return { client, partitioner, errors, begun };
  };
  return {
    path,
    join,
    /** Resolves when the members own these numbers of partitions, in any order. */
    untilOwned: async (members: readonly Member[], ...counts: number[]) => {
      await expect.poll(() => ownedBy(members).sort(), { interval: 5 }).toEqual(counts.sort());
    },
  };
}

/** A partitioner of one partition with this handler. */
function single(
  client: ZkClient,
  path: string,
  handler: (partition: Partition) => unknown,
  options: Partial<PartitionerOptions> = {},
): Partitioner {
  const all = { partitions: 1, rebalanceDelay: 0, ...options };
  const partitioner = opened(new Partitioner(client, path, handler, all));
  partitioner.start();
  return partitioner;
}

describe('Partitioner', () => {
  it('spreads the partitions over the members, and moves as few as possible', async () => {
    const { path, join, untilOwned } = group('spread');
    const a = await join('a');
    await untilOwned([a], 8);
    const b = await join('b');
    await untilOwned([a, b], 4, 4);
    // The data and the children of the group, for each member, and each lock.
    await expect.poll(() => server.watchCount()).toBe(2 * 2 + 8);
    const begun = () => a.begun.length + b.begun.length;
    const before = begun();
    const c = await join('c');
    await untilOwned([a, b, c], 3, 3, 2);
    expect([begun(), c.begun.length]).toEqual([before, 2]);
    expect(await a.partitioner.assignment()).toEqual(
      new Map(
        [a, b, c].map(({ partitioner }) => [
          partitioner.id,
          partitioner.owned().map(({ index }) => index),
        ]),
      ),
    );
    await c.partitioner.close();
    await untilOwned([a, b], 4, 4);
    expect(begun()).toBe(before + 2);
    await a.partitioner.close();
    await untilOwned([b], 8);
    await b.partitioner.close();
    expect([...a.errors, ...b.errors, ...c.errors]).toEqual([]);
    const locks = Array.from({ length: 8 }, (_, index) => `${path}/partitions/${index}`);
    await untilNothingLeft(server, c.client, `${path}/members`, ...locks);
  });

  it('makes one assignment for the changes within the delay, and moves nothing for a member that returns', async () => {
    const { path, join, untilOwned } = group('delay', { rebalanceDelay: 1500 });
    const [a, b] = await Promise.all([join('a'), join('b')]);
    await untilOwned([a, b], 4, 4);
    const { stat: before } = await a.client.get(`${path}/members`);
    expect(before.version).toBe(1);
    const begun = a.begun.length;
    const [moved] = b.partitioner.owned();
    await b.partitioner.close();
    const again = await join('b');
    await untilOwned([a, again], 4, 4);
    expect(again.partitioner.owned().map(({ index }) => index)).toContain(moved!.index);
    expect(a.begun).toHaveLength(begun);
    const { stat: after } = await a.client.get(`${path}/members`);
    expect(after.version).toBe(1);
  });

  it('gives a partition away only when its handler has settled, and reports one that does not stop', async () => {
    let release = () => {};
    const reasons: unknown[] = [];
    const errors: unknown[] = [];
    const handler = async ({ signal }: Partition) => {
      reasons.push(await aborted(signal));
      await new Promise<void>((resolve) => (release = resolve));
    };
    const onError = (error: unknown) => errors.push(error);
    const slow = single(await connect(), path, handler, { stopTimeout: 50, onError });
    await expect.poll(() => slow.owned()).toHaveLength(1);
    const [old] = slow.owned();
    const next = single(await connect(), path, untilAborted);
    await slow.close();
    expect(reasons).toEqual([expect.any(PartitionReleasedError)]);
    expect(old).toMatchObject({ owned: false });
    await expect
      .poll(() => errors)
      .toMatchObject([{ message: expect.stringContaining('still running 50 ms') }]);
    await untilNodes(next.client, `${path}/partitions/0`, 2);
    expect(next.owned()).toEqual([]);
    release();
    await expect.poll(() => next.owned()).toHaveLength(1);
    expect(next.owned()[0]!.fencingToken).toBeGreaterThan(old!.fencingToken);
  });

  it('waits for its handlers when it is closed, also if its znode cannot be deleted', async () => {
    const errors: unknown[] = [];
    let release = () => {};
    const handler = () => new Promise<void>((resolve) => (release = resolve));
    const onError = (error: unknown) => errors.push(error);
    const only = single(client, server.path('close-fails'), handler, { onError });
    await expect.poll(() => only.owned()).toHaveLength(1);
    const failure = new Error('throttled');
    vi.spyOn(await client.session(), 'exists').mockRejectedValueOnce(failure);
    const closed = observed(only.close());
    await expect.poll(() => errors).toEqual([failure]);
    expect(closed.settled).toBe(false);
    release();
    await closed.promise;
  });

  it('is closed while its first read of the group has no reply', async () => {
    const get = vi.spyOn(client, 'get').mockReturnValue(new Promise(() => {}));
    const partitioner = single(client, server.path('no-reply'), untilAborted);
    await expect.poll(() => get).toHaveBeenCalled();
    await partitioner.close();
  });

  it('leaves the group if it is closed before the reply to the create of its member', async () => {
    const { connectString } = await newLink({ latency: 50 });
    const only = single(await connect({ connectString }), path, untilAborted);
    await untilNodes(client, `${path}/members`, 1);
    await only.close();
    expect(await nodesUnder(client, `${path}/members`)).toEqual([]);
  });

  it('aborts the signals of its partitions at once when it is closed without a connection', async () => {
    const reasons: unknown[] = [];
    const handler = async ({ signal }: Partition) => reasons.push(await aborted(signal));
    const only = single(client, path, handler, { id: 'a' });
    await expect.poll(() => only.owned()).toHaveLength(1);
    // A member with another number of partitions, which cannot be read.
    const get = vi.spyOn(client, 'get').mockReturnValue(new Promise(() => {}));
    await client.create(`${path}/members/b`, '2', { mode: 'ephemeral' });
    const other = { members: ['a', 'b'], owners: [0, 1] };
    await client.set(`${path}/members`, JSON.stringify(other));
    await expect.poll(() => get).toHaveBeenCalledWith(`${path}/members/b`);
    await only.close();
    expect(reasons).toEqual([expect.any(PartitionReleasedError)]);
  });

  it.each(['aaa', 'zzz'])('ignores and reports a znode %s that is no member', async (name) => {
    await client.ensureContainers(`${path}/members`);
    await client.create(`${path}/members/${name}`, '2');
    await client.create(`${path}/members/${name}-ephemeral`, 'x', { mode: 'ephemeral' });
    const errors: Error[] = [];
    const onError = (error: Error) => errors.push(error);
    const options = { partitions: 2, id: 'm', onError };
    const first = single(client, path, untilAborted, options);
    await expect.poll(() => first.owned()).toHaveLength(2);
    expect([...(await first.assignment()).keys()]).toEqual(['m']);
    expect(errors.map(({ message }) => message.split(' is no ')[0]).sort()).toEqual([
      `znode ${path}/members/${name}`,
      `znode ${path}/members/${name}-ephemeral`,
    ]);
    expect(errors[0]).toBeInstanceOf(RecipeConflictError);
    // A member of the same name counts as soon as the other znode is deleted.
    const taken = { partitions: 2, id: name, onError: () => {} };
    const second = single(await connect(), path, untilAborted, taken);
    await client.delete(`${path}/members/${name}`);
    await expect.poll(() => [first.owned().length, second.owned().length]).toEqual([1, 1]);
    expect(errors).toHaveLength(2);
  });

  it('is closed within its stopTimeout while the server does not reply', async () => {
    const link = await newLink();
    const { connectString } = link;
    const client = await connect({ connectString, sessionTimeout: 30_000 });
    const partitioner = single(client, path, untilAborted, { stopTimeout: 100 });
    await expect.poll(() => partitioner.owned()).toHaveLength(1);
    const [partition] = partitioner.owned();
    await link.holdAll();
    await partitioner.close();
    expect(client.connected).toBe(true);
    expect(partition!.signal.reason).toBeInstanceOf(PartitionReleasedError);
    await link.resume();
    await untilNothingLeft(server, client, `${path}/members`, `${path}/partitions/0`);
  });

  it('loses its partitions with the session, and joins again in the next one', async () => {
    const { join, untilOwned } = group('expired');
    const a = await join('a');
    const b = await join('b');
    await untilOwned([a, b], 4, 4);
    const [lost] = a.partitioner.owned();
    await expire(a.client, server);
    expect(await aborted(lost!.signal)).toBeInstanceOf(LeaseLostError);
    await untilOwned([a, b], 4, 4);
    expect([...a.errors, ...b.errors]).toEqual([]);
  });

  it('acquires a partition again whose znode was deleted', async () => {
    const tokens: bigint[] = [];
    const only = single(client, path, async (partition) => {
      tokens.push(partition.fencingToken);
      await untilAborted(partition);
    });
    await expect.poll(() => only.owned()).toHaveLength(1);
    // Those on the data and the children of the group, and that on the lock, which is set 50 ms after the grant.
    await expect.poll(() => server.watchCount()).toBe(3);
    const [node] = await nodesUnder(client, `${path}/partitions/0`);
    await client.delete(`${path}/partitions/0/${node}`);
    await expect.poll(() => tokens).toHaveLength(2);
    expect(tokens[1]).toBeGreaterThan(tokens[0]!);
  });

  it('joins again after its member znode was deleted', async () => {
    const { path, join, untilOwned } = group('member-deleted');
    const a = await join('a');
    const b = await join('b');
    await untilOwned([a, b], 4, 4);
    await b.client.delete(`${path}/members/a`);
    await expect.poll(() => nodesUnder(b.client, `${path}/members`)).toEqual(['a', 'b']);
    await untilOwned([a, b], 4, 4);
  });

  it('does not join members with another number of partitions, until they are gone', async () => {
    const { join, untilOwned } = group('count');
    const a = await join('z');
    await untilOwned([a], 8);
    const b = await join('b', { partitions: 4 });
    await expect.poll(() => b.errors).toEqual([expect.any(PartitionCountError)]);
    expect(ownedBy([a, b])).toEqual([8, 0]);
    await a.partitioner.close();
    await untilOwned([b], 4);
  });

  it('leaves when the first assignment has another number of partitions', async () => {
    const { path, join, untilOwned } = group('count-at-start', { rebalanceDelay: 1000 });
    const [a, b] = await Promise.all([join('a'), join('b', { partitions: 4 })]);
    await untilNodes(a.client, `${path}/members`, 2);
    await expect.poll(() => b.errors).toEqual([expect.any(PartitionCountError)]);
    await untilOwned([a, b], 8, 0);
  });

  it('ignores the assignment of former members that had another number of partitions', async () => {
    const { path, join, untilOwned } = group('stale-count', {
      partitions: 4,
      rebalanceDelay: 1000,
    });
    await client.ensureContainers(`${path}/members`);
    const stale = { members: ['a', 'b'], owners: [1, 1, 1, 1, 0, 0, 0, 0] };
    await client.set(`${path}/members`, JSON.stringify(stale));
    const a = await join('a');
    await untilNodes(client, `${path}/members`, 1);
    const b = await join('b');
    await untilOwned([a, b], 2, 2);
    for (const { begun, errors } of [a, b]) {
      expect(begun.map(({ index }) => index).filter((index) => index >= 4)).toEqual([]);
      expect(errors).toEqual([]);
    }
  });

  it('calls a handler again that has failed, and not one that has returned', async () => {
    const errors: unknown[] = [];
    const calls: number[] = [];
    const only = single(
      await connect(),
      path,
      ({ index }) => {
        if (calls.push(index) === 1) throw new Error('no database');
      },
      { onError: (error) => errors.push(error) },
    );
    await expect.poll(() => calls).toEqual([0, 0]);
    expect(errors).toEqual([new Error('no database')]);
    expect(only.owned()).toHaveLength(1);
  });

  it('runs its handler as the holder of the lock, outside of the call chain that started it', async () => {
    const key = new Promise((resolve) => {
      void connect().then((client) => single(client, path, () => resolve(currentLease()?.key)));
    });
    expect(await key).toBe(`partition 0 of ${path}`);
  });

  it('writes in a transaction while it holds the lock, also after the release has begun', async () => {
    const saved = `${path}-saved`;
    await client.create(saved, '0');
    const write = ({ transaction }: Partition, data: string) => transaction([{ set: saved, data }]);
    let begun: Partition | undefined;
    const only = single(client, path, async (partition) => {
      begun = partition;
      await write(partition, 'begun');
      await untilAborted(partition);
      await write(partition, 'saved');
    });
    const read = async () => (await client.get(saved)).data.toString();
    await expect.poll(read).toBe('begun');
    await only.close();
    expect(await read()).toBe('saved');
    expect(begun!.signal.reason).toMatchObject({
      message: `partition 0 of ${path} is released, because its member leaves`,
    });
    await expect(write(begun!, 'late')).rejects.toThrow('released');
    expect(await read()).toBe('saved');
  });

  it('calls its listeners with the partitions that it owns', async () => {
    const counts: number[] = [];
    const only = opened(
      new Partitioner(await connect(), path, untilAborted, { partitions: 2, rebalanceDelay: 0 }),
    );
    only.onChange((owned) => counts.push(owned.length));
    only.start();
    await expect.poll(() => counts).toEqual([1, 2]);
    await only.close();
    expect(counts).toEqual([1, 2, 1, 0]);
  });

  it('refuses wrong options, and a second start', async () => {
    const make = (options: object) => () =>
      new Partitioner(client, '/p', () => {}, options as PartitionerOptions);
    for (const options of [
      {},
      { partitions: 0 },
      { partitions: 1.5 },
      { partitions: 10_001 },
      { partitions: 1, id: 'a/b' },
      { partitions: 1, id: '' },
      { partitions: 1, id: '..' },
      { partitions: 1, id: 'x'.repeat(256) },
      { partitions: 1, rebalanceDelay: -1 },
      { partitions: 1, stopTimeout: NaN },
      { partitions: 1, onError: 'no' },
      { partition: 1 },
    ]) {
      expect(make(options)).toThrow(BadOptionError);
    }
    const only = single(client, server.path('twice'), untilAborted);
    expect(() => only.start()).toThrow(IllegalStateError);
    await only.close();
    await only.close();
    expect(only.state).toBe('closed');
    expect(() => only.start()).toThrow(IllegalStateError);
  });
});
