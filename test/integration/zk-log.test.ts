import { hostname } from 'node:os';
import { inspect } from 'node:util';
import { Logger } from '@nestjs/common';
import { LeaderService, LockService, LockTimeoutError, SemaphoreService } from 'nestjs-zookeeper';
import { describe, expect, vi } from 'vitest';
import { failureOf } from '../support/recipe-nodes.js';
import { loseSession, untilCandidates, untilLeading, useApps } from '../support/nest-apps.js';
import { useServer } from '../support/servers.js';
import { afterEach, beforeEach, currentWorld, it } from '../support/virtual-time.js';

const server = useServer();
const apps = useApps(server);
const never = { wait: Infinity, hold: Infinity };

let lines: string[] = [];
const about = (what: string) => lines.filter((line) => line.includes(what));

beforeEach(() => {
  lines = [];
  for (const level of ['log', 'warn', 'debug'] as const) {
    vi.spyOn(Logger.prototype, level).mockImplementation(function (this: Logger, line: unknown) {
      const { context } = this as unknown as { context: string };
      if (context.startsWith('ZkModule')) lines.push(`${level} ${String(line)}`);
    });
  }
});
afterEach(() => vi.restoreAllMocks());

describe('the log contains a warning', () => {
  it('once for a wait that is too long, with the key and the holder', async () => {
    const [holder, waiter] = [
      await apps.start({}, { warnAfter: never, defaults: { details: { name: 'till-1' } } }),
      await apps.start({}, { warnAfter: { wait: 60, hold: Infinity } }),
    ];
    const held = await holder.get(LockService).acquire('gold');
    const locks = waiter.get(LockService);
    const waiting = [1, 2].map(() => locks.withLock('gold', () => {}));
    await expect.poll(() => about('gold')).toHaveLength(1);
    expect(lines.at(-1)).toContain(
      `warn lock "gold": 2 callers of this process have waited for more than 60 ms; held by ${hostname()}:${process.pid} (till-1) since 20`,
    );
    // Long enough for several checks.
    expect(await failureOf(locks.acquire('gold', { wait: 200 }))).toBeInstanceOf(LockTimeoutError);
    expect(about('gold')).toHaveLength(1);
    await held.release();
    await Promise.all(waiting);

    await using _again = await holder.get(LockService).acquire('gold');
    const cancelling = new AbortController();
    const later = failureOf(locks.acquire('gold', { signal: cancelling.signal }));
    await expect.poll(() => about('gold')).toHaveLength(2);
    expect(lines.at(-1)).toContain(': 1 caller of');
    cancelling.abort();
    await later;
  });

  it('for waits for permits and for several locks', async () => {
    const holder = await apps.start({}, { warnAfter: never });
    const app = await apps.start({}, { warnAfter: { wait: 50 } });
    const [locks, semaphores] = [app.get(LockService), app.get(SemaphoreService)];
    const permits = await holder.get(SemaphoreService).acquire('pool', { permits: 2, count: 2 });
    const held = await holder.get(LockService).acquire('b');
    const waiting = [
      semaphores.withPermit('pool', { permits: 2 }, () => {}),
      locks.withLock(['a', 'b'], () => {}),
    ];
    await expect.poll(() => about('semaphore "pool"')).toHaveLength(1);
    await expect.poll(() => about('lock "a, b"')).toHaveLength(1);
    for (const line of lines.filter((one) => one.includes('waited for'))) {
      expect(line).toContain(`held by ${hostname()}:${process.pid}`);
    }
    await Promise.all([permits.release(), held.release()]);
    await Promise.all(waiting);
  });

  it('once for a hold that is too long, however often it is re-entered, and says what to do', async () => {
    const app = await apps.start({}, { warnAfter: { hold: 60 } });
    const locks = app.get(LockService);
    await locks.withLock('slow', (lease) =>
      locks.withLock('slow', async () => {
        await expect.poll(() => about('slow')).toHaveLength(1);
        const { path, fencingToken } = lease;
        expect(lines.at(-1)).toBe(
          `warn "slow" (${path}) has been held by this process for more than 60 ms, fencing token ${fencingToken}; limit holds with holdAtMost, or raise warnAfter.hold if this is normal`,
        );
        await failureOf(locks.withLock('other', () => locks.acquire('slow', { wait: 200 })));
        expect(about('"slow" (')).toHaveLength(1);
      }),
    );
  });

  it('without characters of a key that could forge a line', async () => {
    const app = await apps.start({}, { warnAfter: { hold: 60 } });
    const path = server.path('slow');
    const options = { path: `${path}\u202e\u2028` };
    await app.get(LockService).withLock('slow\u009b', options, async () => {
      await expect.poll(() => about('has been held')).toHaveLength(1);
    });
    expect(about('has been held')[0]).toContain(`warn "slow?" (${path}??) has been`);
  });

  it('for a hold of more than 30 seconds by default, also without warnings about waits', async () => {
    const app = await apps.start({}, { warnAfter: { wait: Infinity } });
    await app.get(LockService).withLock('slow', () => currentWorld().sleep(29_000));
    expect(about('slow')).toEqual([]);
    await app.get(LockService).withLock('slow', () => currentWorld().sleep(40_000));
    expect(about('slow')).toHaveLength(1);
  });

  it('for no short wait or hold, and for none if the limit is Infinity', async () => {
    const app = await apps.start({}, { warnAfter: { wait: 20_000, hold: Infinity } });
    const locks = app.get(LockService);
    const held = await locks.acquire('quick');
    expect(await locks.tryAcquire('quick', { wait: 300 })).toBeUndefined();
    await held.release();
    expect(about('quick')).toEqual([]);
  });
});

describe('the log contains a warning about an ACL that denies a release', () => {
  it('once, by the connection, and there is no process warning', async () => {
    const emitted = vi.spyOn(process, 'emitWarning').mockImplementation(() => {});
    const [app] = [await apps.start({}), await apps.start({})];
    const locks = app.get(LockService);
    const acl = [{ scheme: 'world' as const, id: 'anyone', permissions: 'crwa' }];
    await locks.withLock('gold', ({ path }) => app.client.setAcl(path, acl));
    await failureOf(locks.acquire('gold', { wait: 50 }));
    const refused = about('refused to delete');
    expect(refused).toHaveLength(1);
    expect(refused[0]).toMatch(/^warn the server refused to delete .*Grant the permission 'd'/);
    expect(emitted).not.toHaveBeenCalledWith(expect.anything(), { code: 'ZK_DELETE_REFUSED' });
  });
});

describe('the log contains a warning about a lost lease', () => {
  it('with its key, also if only its znode was deleted or nobody looks at the lease', async () => {
    const app = await apps.start({}, { warnAfter: { wait: Infinity, hold: 40_000 } });
    const locks = app.get(LockService);
    const lost = () => lines.filter((line) => line.includes('lease(s) were lost'));
    await locks.withLock('gold', async (lease) => {
      const [holder] = await locks.participants('gold');
      await app.client.delete(holder!.path);
      await expect.poll(() => lease.held).toBe(false);
    });
    await expect.poll(lost).toHaveLength(1);
    expect(lost()[0]).toMatch(/^warn 1 lease\(s\) were lost: gold; .*a client deleted/);
    const kept = await locks.acquire('silver', { holdAtMost: 20 });
    await expect.poll(lost).toHaveLength(2);
    expect(lost()[1]).toContain('silver; ');
    await kept.release();
    await Promise.all([locks.acquire('a'), locks.acquire('b')]);
    await loseSession(server, app.client);
    await expect.poll(lost).toHaveLength(3);
    expect(lost()[2]).toContain('warn 2 lease(s) were lost: a, b; ');
  });
});

describe('what another client has written to a znode', () => {
  const EVIL = `x\n[Nest] 1 ERROR forged\u001b[2J\u202e${'A'.repeat(100_000)}`;
  const NAMELESS = { toString: 1 };

  it.each([
    ['a leader', 'elections/job', 'latch', EVIL],
    ['a holder', 'locks/job', 'lock', EVIL],
    ['a host', 'locks/job', 'lock', JSON.stringify({ host: EVIL, pid: 1 })],
    ['details', 'locks/job', 'lock', JSON.stringify({ host: 'h', pid: 1, name: EVIL, text: EVIL })],
    ['no text', 'locks/job', 'lock', JSON.stringify({ host: 'h', pid: 1, name: NAMELESS })],
  ])('is one short line of the log: %s', async (_, directory, marker, data) => {
    const app = await apps.start({}, { warnAfter: { wait: 50 } });
    const path = `${app.client.namespace}/${directory}`;
    await app.client.ensureContainers(path);
    const node = `${path}/_c_00000000-0000-0000-0000-000000000000-${marker}-`;
    await app.client.create(node, data, { mode: 'ephemeral-sequential' });
    app.get(LeaderService).isLeader('job');
    await using _lease = await app.get(LockService).tryAcquire('job', { wait: 200 });
    await expect.poll(() => about('job')).not.toEqual([]);
    for (const line of lines) {
      // oxlint-disable-next-line no-control-regex
      expect(line).not.toMatch(/[\u0000-\u001f\u202e]/);
      expect(line.length).toBeLessThan(1000);
    }
    expect(about('reading the holders failed')).toEqual([]);
  });
});

describe('the id of a session, from which its password can be computed,', () => {
  it('is in no line and in no error', async () => {
    const link = currentWorld().process('app');
    const [app, other] = [
      await apps.start({}, { warnAfter: { wait: 50 }, logLeases: true }, link),
      await apps.start({}),
    ];
    const sessions = new Set<string>();
    for (const { client } of [app, other]) {
      sessions.add(client.sessionId!);
      client.onState(({ sessionId }) => sessionId && sessions.add(sessionId));
    }
    await untilLeading(other.get(LeaderService), 'job');
    app.get(LeaderService).isLeader('job');
    await expect.poll(() => about('follows')).toHaveLength(1);
    // A holder that does not name itself.
    const gold = `${other.client.namespace}/locks/gold`;
    await other.client.ensureContainers(gold);
    const ahead = `${gold}/_c_00000000-0000-0000-0000-000000000000-lock-`;
    await other.client.create(ahead, '', { mode: 'ephemeral-sequential' });
    await failureOf(app.get(LockService).acquire('gold', { wait: 200 }));
    expect(about(': 1 caller of')).toHaveLength(1);
    const lease = await app.get(LockService).acquire('silver');
    link.link.reset();
    await expect.poll(() => about('RECONNECTED')).toHaveLength(1);
    await loseSession(server, app.client);
    await expect.poll(() => lease.held).toBe(false);
    await expect.poll(() => about('log CONNECTED')).toHaveLength(3);
    for (const text of [...lines, inspect(lease.signal.reason)]) {
      for (const session of sessions) expect(text).not.toContain(session);
    }
  });
});

describe('the log contains', () => {
  it('who leads, and how the leadership ended', async () => {
    const app = await apps.start({}, { participantId: 'me' });
    const leaders = app.get(LeaderService);
    const { fencingToken } = await untilLeading(leaders, 'job');
    await loseSession(server, app.client);
    await expect.poll(() => about('was lost')).not.toEqual([]);
    await untilLeading(leaders, 'job');
    await app.close();
    expect(about('election "job"')).toEqual([
      `log leads election "job" as me, fencing token ${fencingToken}`,
      expect.stringMatching(/^warn the leadership of election "job" was lost: /),
      expect.stringMatching(/^log leads election "job" as me, fencing token /),
      'log the leadership of election "job" was given up',
    ]);
  });

  it('whom a follower follows, once for each leader', async () => {
    const [first, second] = [
      await apps.start({}, { participantId: 'first' }),
      await apps.start({}, { participantId: 'second' }),
    ];
    await untilLeading(first.get(LeaderService), 'job');
    const follower = await apps.start({}, { participantId: 'follower' });
    const leaders = second.get(LeaderService);
    leaders.isLeader('job');
    await untilCandidates(leaders, 'job', ['first', 'second']);
    follower.get(LeaderService).isLeader('job');
    const follows = (who: string, name: string) =>
      `log follows in election "job" as ${who}; ${name} leads`;
    const expected = [follows('second', 'first'), follows('follower', 'first')];
    await expect.poll(() => about('log follows')).toEqual(expected);
    // The second one leaves while the first one leads: the follower wakes, and its leader is the same.
    await second.close();
    await untilCandidates(first.get(LeaderService), 'job', ['first', 'follower']);
    await first.client.sync('/');
    await first.get(LeaderService).resign('job');
    await expect
      .poll(() => about('log follows'))
      .toEqual([...expected, follows('first', 'follower')]);
  });

  it('the events of its own connection only, and each lease with logLeases', async () => {
    const [app, other] = [await apps.start({}, { logLeases: true }), await apps.start({})];
    await other.get(LockService).withLock('elsewhere', () => {});
    const locks = app.get(LockService);
    const { fencingToken } = await locks.withLock('gold', async (lease) => {
      await locks.withLock('gold', () => {});
      await locks.tryAcquire('gold', { wait: 0 }).catch(() => {});
      return lease;
    });
    await expect(
      locks.withLock('silver', () =>
        failureOf(other.get(LockService).acquire('silver', { wait: 0 })),
      ),
    ).resolves.toBeDefined();
    const leases = lines.filter((line) => line.startsWith('debug'));
    expect(leases).toEqual([
      expect.stringMatching(/^debug lock "gold" granted, cold, after \d+\.\d ms$/),
      'debug lock "gold" granted, re-entered, after 0.0 ms',
      expect.stringMatching(
        new RegExp(
          `^debug lock "gold" released after \\d+\\.\\d ms, fencing token ${fencingToken}$`,
        ),
      ),
      expect.stringMatching(/^debug lock "silver" granted, cold, /),
      expect.stringMatching(/^debug lock "silver" released /),
    ]);
    await app.close();
    lines = [];
    await other.get(LockService).withLock('gold', () => {});
    expect(lines).toEqual([]);
  });
});
