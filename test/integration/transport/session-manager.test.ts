import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, vi } from 'vitest';
import {
  ConnectionError,
  NotAuthorizedError,
  SessionExpiredError,
  ShuttingDownError,
} from '../../../lib/client/index.js';
import { ErrorCode } from '../../../lib/protocol/index.js';
import { normalizeOptions } from '../../../lib/client/options.js';
import { SessionManager } from '../../../lib/client/session-manager.js';
import {
  type ConnectRequest,
  type Reply,
  type RequestKind,
  type RequestOf,
  type ResultOf,
  type Transport,
} from '../../../lib/client/transport/transport.js';
import type { Session } from '../../../lib/client/session.js';
import { eventually } from '../../support/eventually.js';
import { afterEach, it } from '../../support/virtual-time.js';

// Tests the session manager with fake transports; no ZooKeeper is needed.

/** Session timeout in milliseconds, so long that the manager's own pings do not disturb a test. */
const TIMEOUT = 60_000;

/**
 * Replies to each request with the code in `answers` in the next turn of the event loop, or never
 * without an entry.
 */
class FakeTransport implements Transport {
  readonly calls: string[] = [];
  readonly answers: Record<string, number | undefined>;
  ended: 'closed' | 'destroyed' | undefined;
  readonly credentials;

  constructor(
    readonly attempt: ConnectRequest,
    id: string,
    readonly timeout: number,
    answers: Record<string, number | undefined>,
  ) {
    this.answers = { ...answers };
    this.credentials = attempt.credentials ?? { id, password: 'secret' };
  }

  request<K extends RequestKind>(request: RequestOf<K>, reply: Reply<ResultOf<K>>): boolean {
    const { kind } = request;
    if (!('path' in request) || kind === 'addWatch' || kind === 'removeWatch') return false;
    this.calls.push(`${kind} ${request.path}`);
    const code = this.answers[kind];
    const result =
      kind === 'create' ? request.path : kind === 'delete' || kind === 'sync' ? undefined : {};
    if (code !== undefined) setImmediate(() => reply(code, result as ResultOf<K>));
    return true;
  }
  readonly server = 'zk1:2181';
  readonly promptClose = false;

  async close(): Promise<boolean> {
    this.ended = 'closed';
    return true;
  }

  destroy(): void {
    this.ended = 'destroyed';
  }
}

type Script = (request: ConnectRequest, attempt: number) => Promise<Transport> | Transport;

const keepers: SessionManager[] = [];
afterEach(() => Promise.all(keepers.splice(0).map((keeper) => keeper.stop())));

const ALL = {
  ...{ create: 0, delete: 0, set: 0, setAcl: 0, sync: 0 },
  ...{ get: 0, exists: 0, children: 0 },
};

/** Creates a session manager whose n-th attempt to connect is answered by `script`. */
function keep(script?: Script, options: object = {}) {
  const transports: FakeTransport[] = [];
  const requests: ConnectRequest[] = [];
  const log: string[] = [];
  const usual: Script = (request, attempt) =>
    new FakeTransport(request, `a${attempt}`, TIMEOUT, ALL);
  const keeper = new SessionManager(
    normalizeOptions({
      connectString: '127.0.0.1:1',
      retry: { type: 'fixed', delay: 5, maxRetries: 3 },
      ...options,
    }),
    async (request) => {
      requests.push(request);
      const transport = await (script ?? usual)(request, requests.length);
      transports.push(transport as FakeTransport);
      return transport;
    },
    { deleteRefused: () => {}, connectFailed: () => {} },
  );
  keeper.connection.listen(({ state }) => log.push(state));
  keepers.push(keeper);
  const until = (state: string) => eventually(() => expect(log.at(-1)).toBe(state));
  return { keeper, transports, requests, log, until };
}

describe('the first connect', () => {
  it('gives up at once if the credentials are refused', async () => {
    const { keeper, requests } = keep(() => Promise.reject(new NotAuthorizedError('no')));
    await expect(keeper.start()).rejects.toBeInstanceOf(NotAuthorizedError);
    expect(requests).toHaveLength(1);
  });

  it('gives up at the end of the retry policy if no server accepts the session', async () => {
    const { keeper, requests } = keep(() => Promise.reject(new ConnectionError('not now')));
    await expect(keeper.start()).rejects.toThrow(/not now/);
    expect(requests).toHaveLength(4);
  });

  it('succeeds only after a server has answered a request', async () => {
    const { keeper, transports, requests, log } = keep(
      (request, attempt) =>
        new FakeTransport(request, `a${attempt}`, TIMEOUT, attempt === 1 ? { sync: -4 } : ALL),
    );
    await keeper.start();
    expect(transports.map(({ ended }) => ended)).toEqual(['destroyed', undefined]);
    expect(requests[1].credentials).toEqual({ id: 'a1', password: 'secret' });
    expect(log).toEqual(['CONNECTED']);
  });
});

it('a create and a listing in one round trip have no listing if that was refused', async () => {
  // The native transport passes an empty listing with the code of an error.
  const answers = { ...ALL, children: ErrorCode.noAuth };
  const { keeper } = keep((request) => new FakeTransport(request, 'a1', TIMEOUT, answers));
  await keeper.start();
  const session = await keeper.session();
  const results = await new Promise((done) => {
    session.createAndList('/a', 'lock-', Buffer.alloc(0), (...all) => done(all));
  });
  expect(results).toEqual([undefined, '/a/lock-', undefined]);
});

describe('a lost connection', () => {
  it('is reported before the requests that it fails', async () => {
    const { keeper, transports, log, until } = keep();
    await keeper.start();
    const session = await keeper.session();
    const replies: Reply<never>[] = [];
    transports[0].request = (_request, reply) => replies.push(reply as Reply<never>) > 0;
    const failed = session.exists('/').catch(() => log.push('failed'));
    transports[0].attempt.listener.onDown('disconnected');
    replies[0](ErrorCode.connectionLoss, undefined as never);
    await failed;
    expect(log.slice(0, 3)).toEqual(['CONNECTED', 'SUSPENDED', 'failed']);
    await until('RECONNECTED');
    expect(await keeper.session()).toBe(session);
  });

  it('is reported with the violation of the protocol that ended it', async () => {
    const { keeper, transports } = keep();
    await keeper.start();
    const reasons: unknown[] = [];
    keeper.connection.listen(({ reason }) => reasons.push(reason?.message));
    transports[0].attempt.listener.onDown('disconnected', new Error('a frame of length -1'));
    expect(reasons).toEqual([
      'the session closed its connection to zk1:2181, because it got a frame of length -1',
    ]);
  });

  it('rejects a request only in a later turn of the event loop, so that immediate retries do not starve it', async () => {
    const { keeper, transports } = keep();
    await keeper.start();
    const session = await keeper.session();
    transports[0].request = () => false;
    let known = false;
    setImmediate(() => (known = true));
    await expect(session.get('/')).rejects.toBeInstanceOf(ConnectionError);
    expect(known).toBe(true);
  });

  it('is followed by sync, then the pending deletes, then all other requests', async () => {
    const { keeper, transports, until } = keep();
    await keeper.start();
    const session = await keeper.session();
    keeper.connection.listen(({ state }) => {
      // May be rejected by the end of the test.
      if (state === 'RECONNECTED') session.create('/new').catch(() => {});
    });
    transports[0].attempt.listener.onDown('disconnected');
    await session.guaranteedDelete('/old-1');
    await session.guaranteedDelete('/old-2');
    await until('RECONNECTED');
    expect(transports[1].calls).toEqual([
      'sync /',
      'delete /old-1',
      'delete /old-2',
      'create /new',
    ]);
    transports[1].attempt.listener.onDown('disconnected');
    await eventually(() => expect(transports).toHaveLength(3));
    await until('RECONNECTED');
    // A delete that was answered is not repeated.
    await eventually(() => expect(transports[2].calls).toEqual(['sync /', 'create /new']));
  });

  it('repeats a pending delete until it is answered', async () => {
    const { keeper, transports, until } = keep((request, attempt) => {
      return new FakeTransport(request, 'a', TIMEOUT, attempt < 3 ? { ...ALL, delete: -4 } : ALL);
    });
    await keeper.start();
    const session = await keeper.session();
    await session.guaranteedDelete('/node');
    for (const again of [0, 1]) {
      transports[again].attempt.listener.onDown('disconnected');
      await eventually(() => expect(transports).toHaveLength(again + 2));
      await until('RECONNECTED');
      expect(transports[again + 1].calls).toEqual(['sync /', 'delete /node']);
    }
    transports[2].attempt.listener.onDown('disconnected');
    await eventually(() => expect(transports).toHaveLength(4));
    await until('RECONNECTED');
    expect(transports[3].calls).toEqual(['sync /']);
  });

  it('is restored although the credentials are refused for a while', async () => {
    const { keeper, transports, until } = keep((request, attempt) => {
      if (attempt === 2) throw new NotAuthorizedError('not now');
      return new FakeTransport(request, 'a', TIMEOUT, ALL);
    });
    await keeper.start();
    transports[0].attempt.listener.onDown('unauthorized');
    await until('RECONNECTED');
  });

  it('is restored although the retry function throws, which emits a process warning', async () => {
    let calls = 0;
    const { keeper, transports, until } = keep(
      (request, attempt) => {
        if (attempt === 2) throw new ConnectionError('not now');
        return new FakeTransport(request, 'a', TIMEOUT, ALL);
      },
      {
        retry: () => {
          calls++;
          throw new Error('a policy failed');
        },
      },
    );
    await keeper.start();
    const warned = once(process, 'warning');
    transports[0].attempt.listener.onDown('disconnected');
    expect(await warned).toMatchObject([{ message: 'a policy failed' }]);
    await until('RECONNECTED');
    expect(calls).toBe(1);
  });
});

describe('the sixth connection in a row that breaks soon counts as a failed attempt', () => {
  const retry = { type: 'fixed', delay: 500, maxRetries: 1000 };

  it('if the server drops each connection', async () => {
    const { keeper, requests } = keep(
      (request) => {
        setTimeout(() => request.listener.onDown('disconnected'), 5);
        return new FakeTransport(request, 'a', TIMEOUT, ALL);
      },
      { retry },
    );
    await keeper.start();
    await sleep(4000);
    expect(requests.length).toBeGreaterThanOrEqual(12);
    expect(requests.length).toBeLessThanOrEqual(14);
  });

  it('if the server grants a session timeout of 1 ms', async () => {
    const { keeper, requests } = keep(
      (request, attempt) => new FakeTransport(request, `a${attempt}`, 1, ALL),
      { retry },
    );
    await keeper.start().catch(() => {});
    await sleep(4000);
    const sessions = requests.filter(({ credentials }) => !credentials);
    expect(sessions.length).toBeGreaterThanOrEqual(12);
    expect(sessions.length).toBeLessThanOrEqual(14);
  });

  it('but not after it has been of use for a while', async () => {
    const { keeper, requests } = keep(
      (request) => {
        setTimeout(() => request.listener.onDown('disconnected'), 1005);
        return new FakeTransport(request, 'a', TIMEOUT, ALL);
      },
      { retry },
    );
    await keeper.start();
    await sleep(10_100);
    expect(requests).toHaveLength(11);
  });
});

describe('a server that does not reply', () => {
  it('is left after three eighths of the requested session timeout, although it granted more', async () => {
    const sessionTimeout = 8000;
    const granted = 2 ** 31 - 1;
    const { keeper, transports, until } = keep(
      (request, attempt) => new FakeTransport(request, `a${attempt}`, granted, ALL),
      { sessionTimeout },
    );
    await keeper.start();
    const startedAt = Date.now();
    const changes: number[] = [];
    keeper.connection.listen(() => changes.push(Date.now() - startedAt));
    transports[0].answers.sync = undefined;
    await until('RECONNECTED');
    expect(changes[0]).toBeLessThanOrEqual((sessionTimeout * 3) / 8);
    expect(transports[0].ended).toBe('destroyed');
    expect((await keeper.session()).timeout).toBe(granted);
  });
});

describe('the deadline of a session', () => {
  afterEach(() => void vi.restoreAllMocks());

  /** Returns by how many milliseconds the answer to a request extends the deadline, after 1,000 ms without one. */
  async function extension(request: (session: Session) => Promise<unknown>): Promise<number> {
    const { keeper } = keep();
    await keeper.start();
    const session = await keeper.session();
    const now = performance.now() + 1000;
    vi.spyOn(performance, 'now').mockReturnValue(now);
    vi.spyOn(Date, 'now').mockReturnValue(Date.now() + 1000);
    const before = session.deadline.left;
    await request(session);
    return session.deadline.left - before;
  }

  it.each<[string, (session: Session) => Promise<unknown>]>([
    ['create', (session) => session.create('/a')],
    ['createContainer', (session) => session.createContainer('/a', 'container')],
    ['delete', (session) => session.delete('/a')],
    ['set', (session) => session.set('/a', 'data')],
    [
      'setAcl',
      (session) => session.setAcl('/a', [{ scheme: 'world', id: 'anyone', permissions: 'r' }]),
    ],
    ['sync', (session) => session.sync('/a')],
  ])('is extended by the answer to %s, which the leader sends', async (_name, request) => {
    expect(await extension(request)).toBeGreaterThanOrEqual(1000);
  });

  it.each<[string, (session: Session) => Promise<unknown>]>([
    ['get', (session) => session.get('/a')],
    ['exists', (session) => session.exists('/a')],
    ['children', (session) => session.children('/a')],
  ])('is not extended by the answer to %s, which any server sends', async (_name, request) => {
    expect(await extension(request)).toBe(0);
  });
});

describe('the end of a session', () => {
  it('that the ensemble reports is not followed by a close request', async () => {
    const { keeper, transports, requests, log, until } = keep((request, attempt) => {
      if (attempt === 2) throw new SessionExpiredError('over');
      return new FakeTransport(request, `a${attempt}`, TIMEOUT, ALL);
    });
    await keeper.start();
    transports[0].attempt.listener.onDown('disconnected');
    await until('CONNECTED');
    expect(log).toEqual(['CONNECTED', 'SUSPENDED', 'LOST', 'CONNECTED']);
    expect((await keeper.session()).id).toBe('a3');
    expect(requests.map(({ credentials }) => credentials?.id)).toEqual([
      undefined,
      'a1',
      undefined,
    ]);
  });

  it.each(['close()', 'the end of the retry policy'])(
    'that %s ends before its first request was answered is followed by a close request',
    async (end) => {
      const { keeper, transports, requests } = keep(
        (request, attempt) =>
          new FakeTransport(request, `a${attempt}`, TIMEOUT, attempt === 1 ? {} : ALL),
        { connectTimeout: end === 'close()' ? TIMEOUT : 10, retry: () => undefined },
      );
      const started = keeper.start().catch((error: Error) => error);
      await eventually(() => expect(transports[0]?.calls).toEqual(['sync /']));
      if (end !== 'close()') await started;
      await keeper.stop();
      expect(await started).toBeInstanceOf(Error);
      expect(requests.map(({ credentials }) => credentials?.id)).toEqual([undefined, 'a1']);
      expect(transports.map(({ ended }) => ended)).toEqual(['destroyed', 'closed']);
    },
  );

  it('that only the session deadline reports is followed by a close request as soon as a server replies', async () => {
    let up = true;
    let timeout = 1000;
    const { keeper, transports, requests, log, until } = keep((request, attempt) => {
      if (!up) throw new ConnectionError('down');
      return new FakeTransport(request, `a${attempt}`, timeout, ALL);
    });
    await keeper.start();
    const session = await keeper.session();
    const reasons: Error[] = [];
    session.onLost((reason) => reasons.push(reason));
    up = false;
    transports[0].attempt.listener.onDown('disconnected');
    await until('LOST');
    expect(reasons[0]).toBeInstanceOf(SessionExpiredError);
    up = true;
    timeout = TIMEOUT;
    await until('CONNECTED');
    expect(log).toEqual(['CONNECTED', 'SUSPENDED', 'LOST', 'CONNECTED']);
    await eventually(() => expect(transports).toHaveLength(3));
    expect(requests.at(-1)?.credentials?.id).toBe('a1');
    await eventually(() => expect(transports[2].ended).toBe('closed'));
    expect(transports[1].ended).toBeUndefined();
  });

  it('is reported to leases first and to the client afterwards', async () => {
    const { keeper, transports, log } = keep();
    await keeper.start();
    const session = await keeper.session();
    transports[0].answers.exists = undefined;
    session.onLost(() => log.push('lease'));
    const pending = session.exists('/').catch(() => log.push('request'));
    const past = performance.now() + 0.8 * TIMEOUT;
    vi.spyOn(performance, 'now').mockReturnValue(past);
    expect(session.alive).toBe(false);
    expect(log).toEqual(['CONNECTED', 'lease', 'LOST']);
    // The session may be alive, so its file is kept.
    expect(await session.shutDown(new ShuttingDownError('closed'), 0)).toBe('lost');
    vi.restoreAllMocks();
    await pending;
    expect(transports[0].ended).toBe('destroyed');
  });
});

describe('stop()', () => {
  it('closes the session if a server replies', async () => {
    const { keeper, transports } = keep();
    await keeper.start();
    await keeper.stop();
    expect(transports.map(({ ended }) => ended)).toEqual(['closed']);
  });

  it('never sends a close request to a server that does not reply', async () => {
    const { keeper, transports } = keep();
    await keeper.start();
    transports[0].answers.exists = undefined;
    await keeper.stop();
    expect(transports.map(({ ended }) => ended)).toEqual(['destroyed']);
  });

  it('uses another connection if the present one is lost', async () => {
    const { keeper, transports, requests } = keep();
    await keeper.start();
    transports[0].attempt.listener.onDown('disconnected');
    await keeper.stop();
    expect(requests.at(-1)?.credentials?.id).toBe('a1');
    expect(transports.at(-1)?.ended).toBe('closed');
  });
});
