import { describe, expect, test } from 'vitest';
import type { DownReason, NodeEvent, Reply } from '../../../../lib/client/transport/transport.js';
import {
  ERROR_RESULT,
  ErrorCode,
  EventType,
  MultiHeader,
  OpCode,
  Stat,
  Xid,
} from '../../../../lib/protocol/index.js';
import type { Peer, Script } from '../../../support/scripted-server.js';
import { attach as attachTo } from './attach.js';

const stat = {
  czxid: 1,
  mzxid: 2,
  ctime: 3,
  mtime: 4,
  version: 5,
  cversion: 6,
  aversion: 7,
  ephemeralOwner: -1n,
  dataLength: 8,
  numChildren: 9,
  pzxid: 2 ** 52 + 1,
};

/** Returns an attached transport, and the log of its callbacks in order. */
async function attach(onRequest: Script['onRequest'] = () => {}) {
  const log: string[] = [];
  const listener = {
    onWatch: (event: NodeEvent, path: string) => void log.push(`${event} ${path}`),
    onDown: (reason: DownReason, violation?: Error) =>
      void log.push(`down: ${reason}`, ...(violation ? [violation.message] : [])),
  };
  const { server, attached } = await attachTo({ onRequest }, { listener });
  const transport = await attached;
  const noted =
    <T>(name: string): Reply<T> =>
    (code) =>
      void log.push(`${name}: ${code}`);
  return { server, peer: server.peers[0], transport, log, noted };
}

const settled = <T>(ask: (reply: Reply<T>) => boolean) =>
  new Promise<{ code: number; result: T }>((resolve, reject) => {
    if (!ask((code, result) => resolve({ code, result }))) reject(new Error('it never left'));
  });

const lengthError = (length: number) => `a frame of length ${length}, at most 16777216 is allowed`;

describe('a reply', () => {
  test('is decoded as the type of the request demands', async () => {
    const { transport } = await attach((peer, { xid, type }) => {
      peer.reply(xid, (to) => {
        if (type === OpCode.getChildren2) to.vector(['a', 'ü'], (name) => to.text(name));
        if (type === OpCode.getData) to.bytes(null);
        if (type === OpCode.create) return to.text('/a0000000001');
        Stat.write(stat, to);
      });
    });
    const read = { ...stat, ephemeralOwner: 'ffffffffffffffff' };
    const replies = [
      await settled((reply) => transport.request({ kind: 'exists', path: '/a' }, reply)),
      await settled((reply) => transport.request({ kind: 'get', path: '/a' }, reply)),
      await settled((reply) => transport.request({ kind: 'children', path: '/a' }, reply)),
      await settled((reply) =>
        transport.request({ kind: 'create', path: '/a', data: Buffer.alloc(0), flags: 2 }, reply),
      ),
    ];
    expect(replies).toEqual([
      { code: 0, result: read },
      { code: 0, result: { data: Buffer.alloc(0), stat: read } },
      { code: 0, result: { children: ['a', 'ü'], stat: read } },
      { code: 0, result: '/a0000000001' },
    ]);
  });

  test('with an error has a code and no result', async () => {
    const { transport } = await attach((peer, { xid }) => peer.refuse(xid, ErrorCode.noNode));
    expect(
      await settled((reply) => transport.request({ kind: 'exists', path: '/a' }, reply)),
    ).toEqual({
      code: ErrorCode.noNode,
      result: undefined,
    });
  });

  test('never arrives during the call, and replies arrive in the order of the requests', async () => {
    const { transport, log, noted } = await attach((peer, { xid }) => peer.refuse(xid, -101));
    for (const name of ['1', '2', '3'])
      transport.request({ kind: 'exists', path: '/' }, noted(name));
    expect(log).toEqual([]);
    await expect.poll(() => log).toEqual(['1: -101', '2: -101', '3: -101']);
  });

  test('keeps its own copy of the data', async () => {
    const { transport } = await attach((peer, { xid }) => {
      peer.reply(xid, (to) => {
        to.bytes(Buffer.from('first'));
        Stat.write(stat, to);
      });
    });
    const { result } = await settled<{ data: Buffer }>((reply) =>
      transport.request({ kind: 'get', path: '/a' }, reply),
    );
    await settled((reply) => transport.request({ kind: 'get', path: '/b' }, reply));
    expect(result.data.toString()).toBe('first');
    expect(result.data.buffer.byteLength).toBeLessThanOrEqual(Buffer.poolSize);
  });

  test.each<[string, string, (peer: Peer, xid: number) => void]>([
    ['to another request', 'a reply to request 2 instead of 1', (peer, xid) => peer.reply(xid + 1)],
    ['without a request', 'a reply to request 77 instead of 1', (peer) => peer.reply(77)],
    [
      'that is shorter than its type',
      '8 bytes wanted, 4 left in the frame',
      (peer, xid) => peer.reply(xid, (to) => to.int(0)),
    ],
    [
      'with a transaction id above that of any ensemble',
      `a transaction id of ${2 ** 60}`,
      (peer, xid) => peer.reply(xid, (to) => Stat.write(stat, to), { zxid: 2 ** 60, err: 0 }),
    ],
    [
      'without a header',
      '8 bytes wanted, 0 left in the frame',
      (peer) => peer.send((to) => to.int(1)),
    ],
    ['that is not a frame', lengthError(-1), (peer) => peer.socket.write(Buffer.alloc(4, 0xff))],
    [
      'of more than 16 MiB',
      lengthError((16 << 20) + 1),
      (peer) => peer.socket.write(Buffer.from([1, 0, 0, 1])),
    ],
  ])(
    '%s breaks the connection, which is reported before the failed requests',
    async (_, violation, answer) => {
      const { transport, log, noted, peer } = await attach((from, { xid }) => answer(from, xid));
      transport.request({ kind: 'exists', path: '/' }, noted('first'));
      transport.request({ kind: 'exists', path: '/' }, noted('second'));
      await expect
        .poll(() => log)
        .toEqual(['down: disconnected', violation, 'first: -4', 'second: -4']);
      await peer.closed;
      expect(transport.request({ kind: 'exists', path: '/' }, noted('third'))).toBe(false);
      expect(transport.credentials.lastZxid).toBeLessThan(2 ** 53);
    },
  );

  test.each<[string, number]>([
    ['/a', 2],
    ['/ab1', 2],
    ['/a/b', 0],
    ['/a0000000001/b', 2],
  ])('with the path %j to a create of /a with the flags %i is a violation', async (path, flags) => {
    const { transport, log, noted } = await attach((peer, { xid }) =>
      peer.reply(xid, (to) => to.text(path)),
    );
    const data = Buffer.alloc(0);
    transport.request({ kind: 'create', path: '/a', data, flags }, noted('create'));
    const violation = `the path ${path} of a created znode`;
    await expect.poll(() => log).toEqual(['down: disconnected', violation, 'create: -4']);
  });

  test.each(['', '.', '..', 'a/b'])('with a child %j is a violation', async (name) => {
    const { transport, log, noted } = await attach((peer, { xid }) => {
      peer.reply(xid, (to) => {
        to.vector(['a', '...', name], (child) => to.text(child));
        Stat.write(stat, to);
      });
    });
    transport.request({ kind: 'children', path: '/a' }, noted('children'));
    const violation = expect.stringContaining('a child with the name');
    await expect.poll(() => log).toEqual(['down: disconnected', violation, 'children: -4']);
  });

  const [deleted, failed, end] = [
    { type: OpCode.delete, done: false, err: 0 },
    { type: ERROR_RESULT, done: false, err: 0 },
    { type: -1, done: true, err: -1 },
  ];
  test.each([
    ['fewer', [deleted, end]],
    ['no', [deleted, failed]],
    ['more', [deleted, deleted, deleted, end]],
  ])('to a multi with %s results is a violation', async (_, headers) => {
    const { transport, log, noted } = await attach((peer, { xid }) => {
      peer.reply(xid, (to) => {
        for (const header of headers) {
          MultiHeader.write(header, to);
          if (header === failed) to.int(0);
        }
        if (headers.includes(failed)) MultiHeader.write(end, to);
      });
    });
    const operation = { kind: 'delete', path: '/a', version: -1 } as const;
    transport.request({ kind: 'multi', operations: [operation, operation] }, noted('multi'));
    const violation = 'a multi of 2 operations with fewer or more results';
    await expect.poll(() => log).toEqual(['down: disconnected', violation, 'multi: -4']);
  });

  test('records the latest transaction, which the next handshake sends', async () => {
    let zxid = 90;
    const { transport } = await attach((peer, { xid }) => {
      peer.reply(xid, (to) => Stat.write(stat, to), { zxid: zxid++, err: 0 });
      peer.event(EventType.created, '/x');
    });
    for (let i = 0; i < 3; i++)
      await settled((reply) => transport.request({ kind: 'exists', path: '/' }, reply));
    expect(transport.credentials.lastZxid).toBe(92);
  });
});

describe('an event', () => {
  test('of a watch is reported by name, and an unknown type is ignored', async () => {
    const { peer, log } = await attach();
    for (const type of [-1, 1, 2, 3, 4, 5]) peer.event(type, '/n');
    await expect.poll(() => log).toEqual(['created /n', 'deleted /n', 'changed /n', 'child /n']);
  });

  test('of an invalid path is a violation', async () => {
    const { peer, log } = await attach();
    peer.event(EventType.created, '/n/');
    await expect.poll(() => log).toEqual(['down: disconnected', 'an event of /n/']);
  });

  test('that refuses the credentials later closes the connection', async () => {
    const { peer, log } = await attach();
    peer.refuse(Xid.auth, ErrorCode.authFailed);
    await expect.poll(() => log).toEqual(['down: unauthorized']);
    await peer.closed;
  });
});

describe('requests', () => {
  test('of one turn of the event loop are sent in one write', async () => {
    const { server, transport, noted } = await attach();
    const chunks: number[] = [];
    server.peers[0].socket.on('data', (chunk: Buffer) => chunks.push(chunk.length));
    for (let i = 0; i < 100; i++) transport.request({ kind: 'exists', path: '/' }, noted('x'));
    await expect.poll(() => server.peers[0].asked.length).toBe(100);
    expect(chunks).toHaveLength(1);
  });

  test('to a server that does not read wait in little memory, and all arrive', async () => {
    const { server, transport } = await attach((peer, { xid }) => {
      peer.reply(xid, (to) => Stat.write(stat, to));
    });
    const { socket } = server.peers[0];
    socket.pause();
    const SIZE = 500_000;
    const COUNT = 40;
    const before = process.memoryUsage().arrayBuffers;
    const data = Buffer.alloc(SIZE, 'x');
    const answers: Promise<{ code: number }>[] = [];
    for (let i = 0; i < COUNT; i++) {
      answers.push(
        settled((reply) =>
          transport.request({ kind: 'set', path: `/${i}`, data, version: -1 }, reply),
        ),
      );
      await new Promise(setImmediate);
    }
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(4 * COUNT * SIZE);
    expect(server.peers[0].asked.length).toBeLessThan(COUNT);
    socket.resume();
    expect((await Promise.all(answers)).every(({ code }) => code === 0)).toBe(true);
    expect(server.peers[0].asked.map(({ xid }) => xid)).toEqual(
      Array.from({ length: COUNT }, (_, i) => i + 1),
    );
  });
});

describe('the end of the connection', () => {
  test('by close() ends the session, and resolves with true when the server replies', async () => {
    const { server, transport, log } = await attach((peer, { xid, type }) => {
      if (type !== OpCode.closeSession) return;
      peer.reply(xid);
      peer.socket.end();
    });
    expect(await transport.close()).toBe(true);
    await server.peers[0].closed;
    expect(server.peers[0].asked.map(({ type }) => type)).toEqual([OpCode.closeSession]);
    expect(log).toEqual([]);
  });

  test('by destroy() sends nothing to the server', async () => {
    const { server, transport, log } = await attach();
    transport.destroy();
    await server.peers[0].closed;
    expect(server.peers[0].asked).toEqual([]);
    expect(log).toEqual([]);
  });

  test('by the server is reported once, before the failed requests', async () => {
    const { peer, transport, log, noted } = await attach();
    transport.request({ kind: 'exists', path: '/' }, noted('request'));
    await expect.poll(() => peer.asked.length).toBe(1);
    peer.socket.end();
    await expect.poll(() => log).toEqual(['down: disconnected', 'request: -4']);
  });
});
