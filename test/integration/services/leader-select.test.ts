import { type BeforeApplicationShutdown, Injectable, Logger } from '@nestjs/common';
import {
  BadOptionError,
  CancelLeadershipError,
  currentTerm,
  LeaderService,
  NotLeaderError,
  type Term,
} from 'nestjs-zookeeper';
import { LeaderSelector } from 'nestjs-zookeeper/recipes';
import { describe, expect, vi } from 'vitest';
import { aborted } from '../../support/clients.js';
import { Gate } from '../../support/gate.js';
import { untilCandidates, untilLeading, useApps } from '../../support/nest-apps.js';
import { observed } from '../../support/recipe-nodes.js';
import { useServer } from '../../support/servers.js';
import { it } from '../../support/virtual-time.js';

const zk = useServer();
const apps = useApps(zk);

async function service(participantId: string): Promise<LeaderService> {
  return (await apps.start({}, { participantId })).get(LeaderService);
}

/** The leader services of two applications. The first one leads the election `job`. */
async function two() {
  const { one, other } = await apps.leaderAndFollower({});
  return { one: one.get(LeaderService), other: other.get(LeaderService) };
}

describe('LeaderService.select', () => {
  it('runs takeLeadership with the term once, gives the leadership up, and emits changes as a latch does', async () => {
    const leaders = await service('one');
    const gate = new Gate();
    const terms: Term[] = [];
    const seen: boolean[] = [];
    const selector = leaders.select('job', async (term) => {
      expect(currentTerm()).toBe(term);
      expect(currentTerm('job')).toBe(term);
      expect([leaders.isLeader('job'), leaders.term('job')]).toEqual([true, term]);
      terms.push(term);
      await gate.pass();
    });
    expect(selector).toBeInstanceOf(LeaderSelector);
    leaders.changes('job').subscribe(({ isLeader }) => seen.push(isLeader));
    await gate.reached;
    expect(seen).toEqual([false, true]);
    expect(terms).toMatchObject([{ election: 'job', participantId: 'one', active: true }]);
    expect(await leaders.participants('job')).toMatchObject([{ id: 'one', isLeader: true }]);
    gate.open();
    await expect.poll(() => leaders.participants('job')).toEqual([]);
    expect([terms.length, terms[0]!.active, leaders.isLeader('job')]).toEqual([1, false, false]);
    expect(seen).toEqual([false, true, false]);
    expect(currentTerm()).toBeUndefined();

    expect(selector.requeue()).toBe(true);
    await expect.poll(() => terms.length).toBe(2);
    expect(terms[1]!.fencingToken).toBeGreaterThan(terms[0]!.fencingToken);
  });

  it('takes turns with other applications with autoRequeue', async () => {
    const order: string[] = [];
    const services = [await service('one'), await service('other')];
    const take = (name: string) => () => void order.push(name);
    for (const [index, leaders] of services.entries()) {
      leaders.select('job', take(String(index)), { autoRequeue: true });
    }
    await expect.poll(() => order.join('')).toMatch(/010101/);
  });

  it('reports an error of takeLeadership, and continues', async () => {
    const leaders = await service('one');
    const errors: unknown[] = [];
    const thrown = [new Error('first'), new CancelLeadershipError(), new Error('third')];
    const left = [...thrown];
    leaders.select(
      'job',
      () => {
        const error = left.shift();
        if (error) throw error;
      },
      { autoRequeue: true, onError: (error) => errors.push(error) },
    );
    await expect.poll(() => left).toEqual([]);
    await expect.poll(() => errors).toEqual([thrown[0], thrown[2]]);
  });

  it('is rejected while a selector or a latch of the election is open', async () => {
    const leaders = await service('one');
    const latch = leaders.latch('job');
    expect(() => leaders.select('job', () => {})).toThrow(BadOptionError);
    expect(() => leaders.select('job', () => {})).toThrow(/election.*take part.*"job"/);
    await latch.close();
    const selector = leaders.select('job', () => {});
    expect(() => leaders.select('job', () => {})).toThrow(/"job"/);
    expect(() => leaders.latch('job')).toThrow(/election.*take part.*"job"/);
    await selector.close();
    leaders.latch('job');
    await untilLeading(leaders, 'job');
  });

  it.each<[string, unknown, unknown, RegExp]>([
    ['no function', undefined, {}, /takeLeadership.*undefined/],
    ['autoRequeue of another type', () => {}, { autoRequeue: 1 }, /autoRequeue.*1/],
    ['an onError that is not a function', () => {}, { onError: true }, /onError.*true/],
    [
      'an unknown option',
      () => {},
      { requeue: true },
      /unknown option requeue in options.*autoRequeue, onError/,
    ],
  ])('rejects %s, and does not become a candidate', async (_, take, options, message) => {
    const leaders = await service('one');
    const attempt = () => leaders.select('job', take as () => void, options as object);
    expect(attempt).toThrow(BadOptionError);
    expect(attempt).toThrow(message);
    expect(await leaders.participants('job')).toEqual([]);
    leaders.latch('job');
  });
});

describe('LeaderService.resign', () => {
  it('gives the leadership to the next candidate, and queues again behind all others', async () => {
    const { one, other } = await two();
    const resigned = one.resign('job');
    expect(one.isLeader('job')).toBe(false);
    await resigned;
    await untilLeading(other, 'job');
    await untilCandidates(one, 'job', ['other', 'one']);
    expect(one.isLeader('job')).toBe(false);
  });

  it('interrupts takeLeadership, and resolves when it has settled and the next candidate leads', async () => {
    const [one, other] = [await service('one'), await service('other')];
    const gate = new Gate();
    let reason: unknown;
    one.select('job', async ({ signal }) => {
      reason = await aborted(signal);
      await gate.pass();
    });
    await untilLeading(one, 'job');
    const second = new Gate();
    other.select('job', () => second.pass());
    await untilCandidates(one, 'job', ['one', 'other']);
    const resigned = observed(one.resign('job'));
    expect(one.isLeader('job')).toBe(false);
    await gate.reached;
    expect(reason).toBeInstanceOf(NotLeaderError);
    expect(await other.leader('job')).toMatchObject({ id: 'one' });
    // Resigns again while the interruption is under way.
    const again = observed(one.resign('job'));
    await one.participants('job');
    expect([resigned.settled, again.settled]).toEqual([false, false]);
    gate.open();
    await Promise.all([resigned.promise, again.promise]);
    expect(await one.leader('job')).toMatchObject({ id: 'other' });
    await second.reached;
    second.open();
  });

  it('called by takeLeadership itself does not wait for takeLeadership', async () => {
    const leaders = await service('one');
    const through: number[] = [];
    leaders.select(
      'job',
      async ({ signal }) => {
        // In a later turn, in which the selector waits for this function.
        await undefined;
        await leaders.resign('job');
        expect(signal.aborted).toBe(true);
        through.push(1);
      },
      { autoRequeue: true },
    );
    await expect.poll(() => through.length).toBeGreaterThan(2);
  });

  it('does nothing if this instance does not lead or is not a candidate', async () => {
    const { one, other } = await two();
    await other.resign('job');
    await one.resign('unknown');
    expect(await one.participants('unknown')).toEqual([]);
    await untilCandidates(one, 'job', ['one', 'other']);
  });
});

describe('a shutdown', () => {
  it('resigns at once: another application leads while this one is still closing', async () => {
    const gate = new Gate();
    @Injectable()
    class Slow implements BeforeApplicationShutdown {
      beforeApplicationShutdown() {
        return gate.pass();
      }
    }
    const app = await apps.start({ providers: [Slow] }, { elections: ['job'] });
    const leaders = app.get(LeaderService);
    const term = await untilLeading(leaders, 'job');
    const other = await service('other');
    other.latch('job');
    const closed = app.close();
    await untilLeading(other, 'job');
    await gate.reached;
    expect([leaders.isLeader('job'), term.active]).toEqual([false, false]);
    expect(app.client.state).toBe('CONNECTED');
    gate.open();
    await closed;
  });

  it('waits for a takeLeadership that ends when its signal aborts', async () => {
    const app = await apps.start({});
    const events: string[] = [];
    const started = new Gate();
    app.get(LeaderService).select('job', async ({ signal }) => {
      started.pass();
      await aborted(signal);
      await app.client.exists('/');
      events.push('settled');
    });
    await started.reached;
    await app.close();
    events.push('closed');
    expect(events).toEqual(['settled', 'closed']);
  });

  it('waits for a takeLeadership that ignores its signal no longer than shutdownTimeout', async () => {
    const log = vi.spyOn(Logger.prototype, 'error').mockReturnValue();
    const app = await apps.start({}, { shutdownTimeout: 5_000 });
    const gate = new Gate();
    app.get(LeaderService).select('job', () => gate.pass());
    await gate.reached;
    const other = await service('other');
    const next = new Gate();
    other.select('job', () => next.pass());
    await untilCandidates(other, 'job', [(await other.leader('job'))!.id, 'other']);
    const before = performance.now();
    await app.close();
    expect(Math.abs(performance.now() - before - 5_000)).toBeLessThan(100);
    await next.reached;
    expect(log.mock.calls.map(([line]) => String(line))).toEqual([
      expect.stringMatching(/^election "job": Error: takeLeadership has not settled within \d+ ms/),
    ]);
    log.mockRestore();
    next.open();
    gate.open();
  });

  it('removes a candidate that is still waiting', async () => {
    const one = await service('one');
    await untilLeading(one, 'job');
    // The watch of the leader on its own node.
    await expect.poll(() => zk.watchCount()).toBe(1);
    const app = await apps.start({}, { participantId: 'other', elections: ['job'] });
    await untilCandidates(one, 'job', ['one', 'other']);
    await expect.poll(() => zk.watchCount()).toBe(2);
    await app.close();
    await untilCandidates(one, 'job', ['one']);
    await expect.poll(() => zk.watchCount()).toBe(1);
  });
});
