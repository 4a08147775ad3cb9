import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, vi } from 'vitest';
import {
  BadOptionError,
  IllegalStateError,
  NotAuthorizedError,
  ShuttingDownError,
  type ZkClient,
} from 'nestjs-zookeeper/recipes';
import { GroupMember, MemberIdTakenError } from 'nestjs-zookeeper/coordination';
import type { GroupMemberOptions } from '../../../lib/coordination/recipes/group-member.js';
import { expire, untilState, useClients, useLinks } from '../../support/clients.js';
import { isSimulated } from '../../support/environment.js';
import { nodesUnder, untilNothingLeft } from '../../support/recipe-nodes.js';
import { useServer } from '../../support/servers.js';
import { beforeEach, it } from '../../support/virtual-time.js';

const server = useServer();
const connect = useClients(server);
const linkTo = useLinks(server);

let path: string;
let client: ZkClient;
beforeEach(async () => {
  path = server.path('group-member');
  client = await connect();
});

function join(client: ZkClient, path: string, options: GroupMemberOptions = {}) {
  const errors: unknown[] = [];
  const member = new GroupMember(client, path, { onError: (e) => errors.push(e), ...options });
  member.start();
  return Object.assign(member, { errors });
}

/** The members as a member sees them, with their data as text. */
const seenBy = ({ members }: GroupMember) =>
  Object.fromEntries([...members].map(([id, data]) => [id, data.toString()]));

describe('GroupMember', () => {
  it('sees the members with their data, and who joins and leaves', async () => {
    const a = join(await connect(), path, { id: 'a', data: '10.0.0.1' });
    await expect.poll(() => seenBy(a)).toEqual({ a: '10.0.0.1' });
    const b = join(await connect(), path, { id: 'b', data: Buffer.from('10.0.0.2') });
    for (const member of [a, b]) {
      await expect.poll(() => seenBy(member)).toEqual({ a: '10.0.0.1', b: '10.0.0.2' });
    }
    expect(b.health()).toEqual({ id: 'b', joined: true, members: ['a', 'b'] });
    expect((await a.client.get(`${path}/a`)).stat.ephemeralOwner).toBe(a.client.sessionId);
    await a.close();
    expect(a).toMatchObject({ joined: false, state: 'closed' });
    await expect.poll(() => seenBy(b)).toEqual({ b: '10.0.0.2' });
    await b.close();
    await untilNothingLeft(server, b.client, path);
    expect([...a.errors, ...b.errors]).toEqual([]);
  });

  it('calls its listeners once for each change', async () => {
    const a = new GroupMember(await connect(), path, { id: 'a' });
    const seen: string[][] = [];
    const remove = a.onChange((members) => seen.push([...members.keys()]));
    a.start();
    await expect.poll(() => seen).toEqual([['a']]);
    const b = join(await connect(), path, { id: 'b' });
    await expect.poll(() => seen).toEqual([['a'], ['a', 'b']]);
    remove();
    await b.close();
    await expect.poll(() => a.members.size).toBe(1);
    expect(seen).toHaveLength(2);
    await a.close();
  });

  it('writes new data, also data that was set while the connection was lost', async () => {
    const link = await linkTo();
    const a = join(await connect({ connectString: link.connectString }), path, { id: 'a' });
    const b = join(await connect(), path, { id: 'b' });
    await expect.poll(() => b.members.size).toBe(2);
    a.setData('one');
    await expect.poll(() => seenBy(b)).toEqual({ a: 'one', b: '' });
    const bytes = Buffer.from('two');
    await link.down();
    await untilState(a.client, 'SUSPENDED');
    a.setData(bytes);
    bytes.fill(0);
    await link.up();
    await expect.poll(() => seenBy(b)).toEqual({ a: 'two', b: '' });
    await expect.poll(() => seenBy(a)).toEqual({ a: 'two', b: '' });
    await Promise.all([a.close(), b.close()]);
  });

  it('joins again with a new session', async () => {
    const a = join(await connect(), path, { id: 'a', data: 'x' });
    const b = join(await connect(), path, { id: 'b' });
    await expect.poll(() => a.members.size).toBe(2);
    const before = a.client.sessionId;
    await expire(a.client, server);
    await expect
      .poll(async () => (await b.client.exists(`${path}/a`))?.ephemeralOwner ?? before)
      .not.toBe(before);
    await expect.poll(() => a.joined).toBe(true);
    await expect.poll(() => seenBy(b)).toEqual({ a: 'x', b: '' });
    expect(a.errors).toEqual([]);
    await Promise.all([a.close(), b.close()]);
  });

  it('joins again at once in a new session while the server still has the znode of the former one', async () => {
    const link = await linkTo();
    const { connectString } = link;
    const a = join(await connect({ connectString, sessionTimeout: 1000 }), path, { id: 'a' });
    await expect.poll(() => a.joined).toBe(true);
    const observer = await connect();
    const before = a.client.sessionId;
    await link.down();
    await untilState(a.client, 'LOST');
    if (isSimulated) expect(await nodesUnder(observer, path)).toEqual(['a']);
    await link.up();
    await expect.poll(() => a.joined).toBe(true);
    expect(a.client.sessionId).not.toBe(before);
    expect(a.errors).toEqual([]);
    await a.close();
  });

  it('joins again after another client has deleted its znode', async () => {
    const a = join(await connect(), path, { id: 'a' });
    await expect.poll(() => a.members.size).toBe(1);
    const { czxid } = (await a.client.get(`${path}/a`)).stat;
    await a.client.delete(`${path}/a`);
    await expect
      .poll(async () => (await a.client.exists(`${path}/a`))?.czxid)
      .toBeGreaterThan(czxid);
    await a.close();
  });

  it('waits until the znode of another session with its id is gone, and leaves that one alone', async () => {
    const former = await connect();
    const old = join(former, path, { id: 'a', data: 'old' });
    await expect.poll(() => old.joined).toBe(true);
    const [closed, next] = [
      join(await connect(), path, { id: 'a' }),
      join(await connect(), path, { id: 'a', data: 'new' }),
    ];
    for (const { errors } of [closed, next]) {
      await expect.poll(() => errors).toEqual([expect.any(MemberIdTakenError)]);
    }
    expect(next.joined).toBe(false);
    await closed.close();
    expect(await nodesUnder(former, path)).toEqual(['a']);
    // The process of the old member ends, and its session with it.
    await former.close();
    await expect.poll(() => seenBy(next)).toEqual({ a: 'new' });
    await next.close();
    await untilNothingLeft(server, next.client, path);
  });

  it('lists a member that it may not read without data, reports it once, and reads it every 30 seconds', async () => {
    const a = join(await connect(), path, { id: 'a', data: 'x' });
    await expect.poll(() => a.joined).toBe(true);
    const allow = (permissions: string) =>
      a.client.setAcl(`${path}/a`, [{ scheme: 'world', id: 'anyone', permissions }]);
    await allow('cdwa');
    const b = join(await connect(), path, { id: 'b', data: 'y' });
    await expect.poll(() => seenBy(b)).toEqual({ a: '', b: 'y' });
    const { czxid } = (await a.client.exists(`${path}/b`))!;
    const c = join(await connect(), path, { id: 'c' });
    await expect.poll(() => seenBy(b)).toEqual({ a: '', b: 'y', c: '' });
    expect((await a.client.exists(`${path}/b`))?.czxid).toBe(czxid);
    if (isSimulated) {
      await delay(31_000);
      await allow('cdrwa');
      expect(seenBy(b)).toMatchObject({ a: '' });
      await delay(28_000);
      expect(seenBy(b)).toMatchObject({ a: '' });
      await delay(2_000);
      expect(seenBy(b)).toMatchObject({ a: 'x' });
    }
    expect(b.errors).toEqual([expect.any(NotAuthorizedError)]);
    await Promise.all([a.close(), b.close(), c.close()]);
    await untilNothingLeft(server, a.client, path);
  });

  it('aborts its signal when it is closed, and when its client is closed', async () => {
    const [a, b] = [join(await connect(), path), join(await connect(), path)];
    expect(a.signal.aborted).toBe(false);
    await a.close();
    expect(a.signal.reason).toBeInstanceOf(IllegalStateError);
    await b.client.close();
    expect(b.signal.reason).toBeInstanceOf(ShuttingDownError);
  });

  it('reports the error that made it leave, and that of the deletion of its znode', async () => {
    const a = join(await connect(), server.path('both-fail'), { id: 'a' });
    await expect.poll(() => a.joined).toBe(true);
    const session = await a.client.session();
    const [first, second] = [new Error('of a listing'), new Error('of the deletion')];
    vi.spyOn(session, 'children').mockRejectedValueOnce(first);
    vi.spyOn(session, 'exists').mockRejectedValueOnce(second);
    await a.client.create(`${a.path}/b`);
    await expect.poll(() => a.errors).toEqual([second, first]);
    await a.close();
  });

  it('refuses wrong options, and a second start', async () => {
    const make = (options: object) => () => new GroupMember(client, path, options);
    expect(make({ id: '..' })).toThrow(`id must be a name other than '.' and '..', but is ".."`);
    for (const options of [{ id: 'a/b' }, { id: 5 }, { data: 5 }, { onError: 1 }, { name: 'x' }]) {
      expect(make(options)).toThrow(BadOptionError);
    }
    expect(() => new GroupMember(client, '/')).toThrow(BadOptionError);
    const a = join(client, path);
    expect(() => a.setData(5 as never)).toThrow(BadOptionError);
    expect(() => a.setData(Buffer.alloc(1_050_000))).toThrow('data must be at most');
    expect(make({ data: Buffer.alloc(1_050_000) })).toThrow('data must be at most');
    expect(() => a.start()).toThrow(IllegalStateError);
    await a.close();
    await a.close();
    expect(() => a.setData('late')).toThrow(IllegalStateError);
    expect(() => a.start()).toThrow(IllegalStateError);
  });
});
