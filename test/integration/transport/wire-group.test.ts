import { describe, expect } from 'vitest';
import type { Reply, Transport } from '../../../lib/client/transport/transport.js';
import { connectWire } from '../../../lib/client/transport/wire-transport.js';
import { InProcessZooKeeper } from '../../../lib/embedded/in-process-zookeeper.js';
import { CreateFlag, ErrorCode, FrameSplitter, OpCode } from '../../../lib/protocol/index.js';
import { ScriptedServer } from '../../support/scripted-server.js';
import { afterEach, it } from '../../support/virtual-time.js';

const EMPTY = Buffer.alloc(0);
const { ok, noNode, nodeExists, connectionLoss } = ErrorCode;

const cleanUps: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0)) await cleanUp();
});

const request = {
  address: { ip: '127.0.0.1', port: 0, host: '127.0.0.1', label: 'zk1:2181' },
  sessionTimeout: 4000,
  authInfo: [],
  signal: new AbortController().signal,
  listener: { onWatch: () => {}, onDown: () => {} },
};

/**
 * Returns a transport on a server in this process, the types of its requests in their order, and its stream.
 *
 * @param latency milliseconds for which each request is delayed
 */
async function attach({ latency = 0 } = {}) {
  const server = new InProcessZooKeeper();
  const types: number[] = [];
  const splitter = new FrameSplitter(0x7fff_ffff);
  let isFirst = true;
  const stream = server.connect();
  const write = stream.write.bind(stream);
  stream.write = ((bytes: Buffer) => {
    splitter.push(Buffer.from(bytes));
    for (let frame = splitter.next(); frame; frame = splitter.next()) {
      if (!isFirst) types.push(frame.readInt32BE(4));
      isFirst = false;
    }
    if (latency === 0) return write(bytes);
    const copy = Buffer.from(bytes);
    setTimeout(() => write(copy), latency);
    return true;
  }) as typeof stream.write;
  const transport = await connectWire(() => stream)(request);
  cleanUps.push(async () => {
    transport.destroy();
    await server.stop();
  });
  for (const path of ['/a', '/b']) expect((await create(transport, path)).code).toBe(ok);
  types.length = 0;
  return { transport, types, stream };
}

type Outcome<T = unknown> = { code: number; result: T };

const outcome = <T>(send: (reply: Reply<T>) => boolean) =>
  new Promise<Outcome<T>>((resolve, reject) => {
    if (!send((code, result) => resolve({ code, result }))) reject(new Error('it was not sent'));
  });

const create = (transport: Transport, path: string, data = EMPTY, flags: number = 0) =>
  outcome<string>((reply) => transport.request({ kind: 'create', path, data, flags }, reply));

const remove = (transport: Transport, path: string) =>
  outcome<void>((reply) => transport.request({ kind: 'delete', path, version: -1 }, reply));

const readAfter = (transport: Transport, path: string, after: string) =>
  outcome((reply) => transport.request({ kind: 'get', path, after }, reply));

const list = async (transport: Transport, path: string) => {
  const { code, result } = await outcome<{ children: string[] }>((reply) =>
    transport.request({ kind: 'children', path }, reply),
  );
  return code === ok ? result.children.toSorted() : code;
};

describe('creates and deletes of one turn', () => {
  it('travel in one multi, and the reads of the same nodes follow', async () => {
    const { transport, types } = await attach();
    for (const path of ['/a/0', '/b/0']) await create(transport, path);
    types.length = 0;
    const outcomes = await Promise.all([
      create(transport, '/a/1'),
      list(transport, '/a'),
      create(transport, '/b/1', Buffer.from('2')),
      remove(transport, '/b/0'),
      list(transport, '/b'),
    ]);
    expect(outcomes).toEqual([
      { code: ok, result: '/a/1' },
      ['0', '1'],
      { code: ok, result: '/b/1' },
      { code: ok, result: undefined },
      ['1'],
    ]);
    expect(types).toEqual([OpCode.multi, OpCode.getChildren2, OpCode.getChildren2]);
  });

  it('are repeated before the reads of a later turn, if their multi fails', async () => {
    const { transport, types } = await attach({ latency: 20 });
    await create(transport, '/a/0');
    types.length = 0;
    const sent = [create(transport, '/a/1'), remove(transport, '/a/none')];
    await new Promise((resolve) => setTimeout(resolve, 10));
    expect(types).toEqual([OpCode.multi]);
    const listed = await list(transport, '/a');
    expect(await Promise.all(sent)).toMatchObject([{ code: ok }, { code: noNode }]);
    expect(listed).toEqual(['0', '1']);
  });

  it('pass no earlier request about the same node, its parent or its child', async () => {
    const { transport, types } = await attach();
    const get = (path: string) =>
      outcome((reply) => transport.request({ kind: 'get', path }, reply));
    const exists = (path: string) =>
      outcome((reply) => transport.request({ kind: 'exists', path, watch: true }, reply));
    const outcomes = await Promise.all([
      create(transport, '/one'),
      list(transport, '/'),
      create(transport, '/two'),
      get('/b'),
      exists('/b'),
      remove(transport, '/a'),
      remove(transport, '/b'),
      list(transport, '/'),
    ]);
    expect(outcomes.map((one) => (Array.isArray(one) ? one : (one as Outcome).code))).toEqual([
      ok,
      ['a', 'b', 'one', 'zookeeper'],
      ok,
      ok,
      ok,
      ok,
      ok,
      ['one', 'two', 'zookeeper'],
    ]);
    expect(types.filter((type) => type === OpCode.multi)).toHaveLength(1);

    await create(transport, '/one/0');
    const last = [
      // The client does not know yet whether the directory /two exists.
      create(transport, '/two/0'),
      remove(transport, '/two/0'),
      remove(transport, '/one/0'),
    ];
    expect((await Promise.all(last)).map(({ code }) => code)).toEqual([ok, ok, ok]);
    expect(await list(transport, '/two')).toEqual([]);
  });

  it('travel in several groups at a time if the round trip is long', async () => {
    const { transport, types, stream } = await attach({ latency: 20 });
    for (const path of ['/a/0', '/b/0', '/c', '/c/0', '/d', '/d/0']) await create(transport, path);
    types.length = 0;
    const deletes: Promise<Outcome>[] = [];
    for (const pair of ['ab', 'cd']) {
      for (const name of pair) deletes.push(remove(transport, `/${name}/0`));
      // In the next turn the group has been sent.
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(types).toEqual([OpCode.multi, OpCode.multi]);
    expect((await Promise.all(deletes)).map(({ code }) => code)).toEqual([ok, ok, ok, ok]);
    stream.destroy();
  });

  it.each([0, 1, 2, 3, 4])(
    'have their own outcomes if the request in position %i fails',
    async (failing) => {
      const { transport, types } = await attach();
      for (const [kind, code] of [['create', nodeExists] as const, ['delete', noNode] as const]) {
        const requests = Array.from({ length: 5 }, (_, i) => {
          if (i !== failing) return create(transport, `/${kind}-${i}`);
          return kind === 'create' ? create(transport, '/a') : remove(transport, '/none');
        });
        const listing = list(transport, '/');
        const codes = (await Promise.all(requests)).map((one) => one.code);
        expect(codes).toEqual(codes.map((_, i) => (i === failing ? code : ok)));
        const created = codes.flatMap((_, i) => (i === failing ? [] : [`${kind}-${i}`]));
        // The read was sent behind the group that failed, and again behind its requests.
        expect(await listing).toEqual(expect.arrayContaining(created));
      }
      expect(types.filter((type) => type === OpCode.multi)).toHaveLength(2);
    },
  );

  it('are applied in their order', async () => {
    const { transport } = await attach();
    const outcomes = await Promise.all([
      remove(transport, '/a'),
      create(transport, '/a', Buffer.from('new')),
      remove(transport, '/b'),
      remove(transport, '/b'),
      create(transport, '/b'),
    ]);
    expect(outcomes.map(({ code }) => code)).toEqual([ok, ok, ok, noNode, ok]);
  });

  it('include transactions that only delete, each of which succeeds or fails as a whole', async () => {
    const { transport, types } = await attach();
    for (const path of ['/a/0', '/a/1', '/b/0', '/b/1']) await create(transport, path);
    types.length = 0;
    const removeBoth = (...paths: string[]) =>
      outcome((reply) => {
        const operations = paths.map((path) => ({ kind: 'delete', path, version: -1 }) as const);
        return transport.request({ kind: 'multi', operations }, reply);
      });
    const results = [undefined, undefined];
    expect(await Promise.all([removeBoth('/a/0', '/b/0'), create(transport, '/a/2')])).toEqual([
      { code: ok, result: { results } },
      { code: ok, result: '/a/2' },
    ]);
    expect(types).toEqual([OpCode.multi]);
    const outcomes = [
      removeBoth('/a/2', '/none'),
      removeBoth('/a/1', '/b/1'),
      list(transport, '/a'),
    ];
    expect(await Promise.all(outcomes)).toEqual([
      { code: ok, result: { failed: 1, code: noNode } },
      { code: ok, result: { results } },
      ['2'],
    ]);
  });

  it('wait while a group is under way, in their order', async () => {
    const { transport, types } = await attach();
    const first = [create(transport, '/1'), remove(transport, '/none')];
    // In the next turn the group has been sent.
    await new Promise((resolve) => setImmediate(resolve));
    const later = [
      remove(transport, '/a'),
      create(transport, '/a'),
      outcome((reply) =>
        transport.request({ kind: 'set', path: '/a', data: Buffer.from('x'), version: -1 }, reply),
      ),
      remove(transport, '/b'),
    ];
    expect(types).toEqual([OpCode.multi]);
    const outcomes = await Promise.all([...first, ...later]);
    expect(outcomes.map(({ code }) => code)).toEqual([ok, noNode, ok, ok, ok, ok]);
    expect(types).toEqual([
      OpCode.multi,
      OpCode.create,
      OpCode.delete,
      OpCode.multi,
      OpCode.setData,
      OpCode.delete,
    ]);
  });

  it('all fail if the connection breaks, each once', async () => {
    const { transport, stream } = await attach();
    const codes: number[] = [];
    const note = (code: number) => void codes.push(code);
    for (const path of ['/1', '/2'])
      transport.request({ kind: 'create', path, data: EMPTY, flags: 0 }, note);
    transport.request({ kind: 'exists', path: '/1' }, note);
    await new Promise((resolve) => setImmediate(resolve));
    transport.request({ kind: 'delete', path: '/a', version: -1 }, note);
    stream.destroy();
    await expect.poll(() => codes).toEqual(Array(4).fill(connectionLoss));
  });

  it('are divided by their number and their bytes', async () => {
    const { transport, types } = await attach();
    const many = Array.from({ length: 300 }, (_, i) => create(transport, `/n${i}`));
    for (const { code } of await Promise.all(many)) expect(code).toBe(ok);
    expect(types).toEqual([OpCode.multi, OpCode.multi, OpCode.multi]);
    types.length = 0;
    const large = Array.from({ length: 8 }, (_, i) =>
      create(transport, `/l${i}`, Buffer.alloc(10_000)),
    );
    for (const { code } of await Promise.all(large)) expect(code).toBe(ok);
    expect(types).toEqual([OpCode.multi, OpCode.multi, OpCode.multi]);
  });

  it('are divided by the number of all operations of their transactions', async () => {
    const { transport, types } = await attach();
    const paths = Array.from({ length: 200 }, (_, i) => `/n${i}`);
    await Promise.all(paths.map((path) => create(transport, path)));
    types.length = 0;
    const transactions = [paths.slice(0, 100), paths.slice(100)].map((each) =>
      outcome((reply) => {
        const operations = each.map((path) => ({ kind: 'delete', path, version: -1 }) as const);
        return transport.request({ kind: 'multi', operations }, reply);
      }),
    );
    for (const { code } of await Promise.all(transactions)) expect(code).toBe(ok);
    expect(types).toEqual([OpCode.multi, OpCode.multi]);
  });
});

describe('a read that follows the create of another znode', () => {
  it('waits with the create while a group is under way', async () => {
    const { transport, types } = await attach();
    await Promise.all(['/a/0', '/b/0'].map((path) => create(transport, path)));
    types.length = 0;
    const group = [create(transport, '/1'), create(transport, '/2')];
    // In the next turn the group has been sent.
    await new Promise((resolve) => setImmediate(resolve));
    const later = [
      create(transport, '/a/lock'),
      readAfter(transport, '/b/0', '/a/lock'),
      remove(transport, '/b/0'),
    ];
    await new Promise((resolve) => setImmediate(resolve));
    expect(types).toEqual([OpCode.multi]);
    const outcomes = await Promise.all([...group, ...later]);
    expect(outcomes.map(({ code }) => code)).toEqual([ok, ok, ok, ok, ok]);
    expect(types).toEqual([OpCode.multi, OpCode.create, OpCode.getData, OpCode.delete]);
  });

  it('is repeated behind the create if their group fails', async () => {
    const { transport, types } = await attach({ latency: 20 });
    await create(transport, '/a/0');
    types.length = 0;
    const outcomes = await Promise.all([
      create(transport, '/a/lock'),
      remove(transport, '/none'),
      readAfter(transport, '/b', '/a/lock'),
    ]);
    expect(outcomes.map(({ code }) => code)).toEqual([ok, noNode, ok]);
    const single = [OpCode.create, OpCode.delete, OpCode.getData];
    expect(types).toEqual([OpCode.multi, OpCode.getData, ...single]);
  });

  it('waits if another group that changes its own node is under way', async () => {
    const { transport, types } = await attach({ latency: 20 });
    for (const path of ['/a/0', '/b/0', '/c', '/c/0']) await create(transport, path);
    types.length = 0;
    const first = [remove(transport, '/a/0'), remove(transport, '/none')];
    await new Promise((resolve) => setImmediate(resolve));
    const second = [create(transport, '/b/lock'), remove(transport, '/c/0')];
    const read = readAfter(transport, '/a/0', '/b/lock');
    await new Promise((resolve) => setImmediate(resolve));
    expect(types).toEqual([OpCode.multi, OpCode.multi]);
    const outcomes = await Promise.all([...first, ...second, read]);
    expect(outcomes.map(({ code }) => code)).toEqual([ok, noNode, ok, ok, noNode]);
    expect(types.at(-1)).toBe(OpCode.getData);
  });
});

describe('a request', () => {
  it('that concerns no node does not wait', async () => {
    const { transport, types } = await attach();
    const group = [remove(transport, '/a'), remove(transport, '/b')];
    await new Promise((resolve) => setImmediate(resolve));
    const behind = [
      create(transport, '/a'),
      outcome((reply) => transport.request({ kind: 'sync', path: '/' }, reply)),
    ];
    await new Promise((resolve) => setImmediate(resolve));
    expect(types).toEqual([OpCode.multi, OpCode.sync]);
    await Promise.all([...group, ...behind]);
  });

  it('that was not sent fails when the session is closed, and is not carried out', async () => {
    const { transport, types } = await attach();
    const group = [remove(transport, '/a'), remove(transport, '/none')];
    await new Promise((resolve) => setImmediate(resolve));
    const later = create(transport, '/a');
    const closed = transport.close();
    const codes = (await Promise.all([...group, later])).map(({ code }) => code);
    expect(codes).toEqual([connectionLoss, connectionLoss, connectionLoss]);
    expect(await closed).toBe(true);
    expect(types).toEqual([OpCode.multi, OpCode.closeSession]);
  });

  it('that is alone is sent as it is', async () => {
    const { transport, types } = await attach();
    await Promise.all([create(transport, '/1'), list(transport, '/')]);
    await remove(transport, '/1');
    expect(types).toEqual([OpCode.create, OpCode.getChildren2, OpCode.delete]);
  });

  it('that creates a node in an unknown directory fails no group, and is not repeated with one', async () => {
    const { transport, types } = await attach();
    const sequential = CreateFlag.sequential;
    const outcomes = await Promise.all([
      create(transport, '/1'),
      create(transport, '/missing/1'),
      create(transport, '/a/node-', EMPTY, sequential),
      create(transport, '/2'),
      list(transport, '/a'),
    ]);
    expect(outcomes.slice(0, 4).map((one) => (one as Outcome).code)).toEqual([ok, noNode, ok, ok]);
    expect(outcomes[4]).toEqual(['node-0000000000']);
    expect(types).toEqual([OpCode.multi, OpCode.create, OpCode.create, OpCode.getChildren2]);

    const failing = await Promise.all([
      create(transport, '/3'),
      remove(transport, '/none'),
      create(transport, '/b/node-', EMPTY, sequential),
      list(transport, '/b'),
    ]);
    expect(failing[3]).toEqual(['node-0000000000']);
    expect(await list(transport, '/b')).toEqual(['node-0000000000']);
  });

  it('is sent alone to a server that does not know multi', async () => {
    const types: number[] = [];
    const stream = ScriptedServer.connect({
      onRequest: (peer, { xid, type }) => {
        types.push(type);
        if (type === OpCode.multi) peer.refuse(xid, ErrorCode.unimplemented);
        else peer.reply(xid);
      },
    });
    const transport = await connectWire(() => stream)(request);
    cleanUps.push(() => transport.destroy());
    for (let round = 0; round < 2; round++) {
      const both = [remove(transport, '/1'), remove(transport, '/2')];
      for (const { code } of await Promise.all(both)) expect(code).toBe(ok);
    }
    expect(types).toEqual([OpCode.multi, ...Array<number>(4).fill(OpCode.delete)]);
  });
});
