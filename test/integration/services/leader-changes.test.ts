import { LeaderService, type LeadershipChange } from 'nestjs-zookeeper';
import { describe, expect } from 'vitest';
import { untilState } from '../../support/clients.js';
import { loseSession, untilLeading, useApps } from '../../support/nest-apps.js';
import { useServer } from '../../support/servers.js';
import { currentWorld, it } from '../../support/virtual-time.js';

const zk = useServer();
const apps = useApps(zk);

async function service(participantId: string): Promise<LeaderService> {
  return (await apps.start({}, { participantId })).get(LeaderService);
}

describe('LeaderService.changes', () => {
  it('emits the present state, each change, and completes when the module closes', async () => {
    const app = await apps.start({}, { participantId: 'one' });
    const leaders = app.get(LeaderService);
    const seen: LeadershipChange[] = [];
    const completed = new Promise<void>((complete) =>
      leaders.changes('job').subscribe({ next: (change) => seen.push(change), complete }),
    );
    const flags = () => seen.map(({ isLeader }) => isLeader);
    expect(flags()).toEqual([false]);
    await expect.poll(flags).toEqual([false, true]);
    expect(seen[1]).toEqual({ election: 'job', isLeader: true, term: leaders.term('job') });
    await leaders.resign('job');
    await expect.poll(flags).toEqual([false, true, false, true]);
    expect(seen[2]).toEqual({ election: 'job', isLeader: false, term: undefined });

    const late: boolean[] = [];
    const subscription = leaders.changes('job').subscribe(({ isLeader }) => late.push(isLeader));
    expect(late).toEqual([true]);
    subscription.unsubscribe();
    await app.close();
    await completed;
    expect(flags()).toEqual([false, true, false, true, false]);
    expect(late).toEqual([true]);
  });

  it('emits the loss of the session, and the next election', async () => {
    const app = await apps.start({});
    const leaders = app.get(LeaderService);
    const first = await untilLeading(leaders, 'job');
    const seen: boolean[] = [];
    leaders.changes('job').subscribe(({ isLeader }) => seen.push(isLeader));
    await loseSession(zk, app.client);
    await expect.poll(() => seen).toEqual([true, false, true]);
    expect(leaders.term('job')!.fencingToken).toBeGreaterThan(first.fencingToken);
  });

  it('emits the changes in the same order to all subscribers, also if one of them resigns on a change', async () => {
    const leaders = await service('one');
    const seen: Record<string, boolean[]> = { resigning: [], watching: [] };
    let resigned = false;
    leaders.changes('job').subscribe(({ isLeader }) => {
      seen.resigning!.push(isLeader);
      if (isLeader && !resigned) {
        resigned = true;
        void leaders.resign('job');
      }
    });
    leaders.changes('job').subscribe(({ isLeader }) => seen.watching!.push(isLeader));
    const expected = [false, true, false, true];
    await expect.poll(() => seen).toEqual({ resigning: expected, watching: expected });
  });

  it('emits nothing twice to a subscriber that subscribes during a change', async () => {
    const leaders = await service('one');
    const seen: boolean[] = [];
    leaders.changes('job').subscribe(({ isLeader }) => {
      if (!isLeader || seen.length > 0) return;
      void leaders.resign('job');
      leaders.changes('job').subscribe((change) => seen.push(change.isLeader));
    });
    await expect.poll(() => seen.at(-1)).toBe(true);
    expect(seen).toEqual([false, true]);
  });

  it.each(['silent', 'notify'] as const)(
    'emits the end of the leadership when the latch is closed with the mode %s',
    async (mode) => {
      const leaders = await service('one');
      const { signal } = await untilLeading(leaders, 'job');
      const seen: boolean[] = [];
      leaders.changes('job').subscribe(({ isLeader }) => seen.push(isLeader));
      const latch = leaders.latch('job');
      const calls: unknown[] = [];
      latch.onChange((term) => calls.push(term));
      const closed = latch.close(mode);
      expect([signal.aborted, seen]).toEqual([true, [true, false]]);
      await closed;
      expect(calls).toEqual(mode === 'silent' ? [] : [undefined]);
      expect(seen).toEqual([true, false]);
    },
  );

  it('emits the loss of leadership to a subscriber that resigns in its first callback', async () => {
    const leaders = await service('one');
    await untilLeading(leaders, 'job');
    const seen: boolean[] = [];
    leaders.changes('job').subscribe(({ isLeader }) => {
      seen.push(isLeader);
      if (seen.length === 1) void leaders.resign('job');
    });
    await expect.poll(() => seen).toEqual([true, false, true]);
  });
});

it.each([
  ['standard', false],
  ['session', true],
] as const)(
  'with the policy %j a leader with a suspended connection keeps the leadership: %s',
  async (policy, leadsOn) => {
    const process = currentWorld().process('app');
    const app = await apps.start({}, { policy }, process);
    const leaders = app.get(LeaderService);
    const term = await untilLeading(leaders, 'job');
    const allow = process.link.refuseConnections();
    process.link.reset();
    await untilState(app.client, 'SUSPENDED');
    expect([leaders.isLeader('job'), term.active]).toEqual([leadsOn, leadsOn]);
    allow();
    await untilLeading(leaders, 'job');
    expect(term.active).toBe(leadsOn);
  },
);
