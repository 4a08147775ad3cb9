import { describe, expect, it } from 'vitest';
import { type RunSettings, simulateRun } from '../../../sample-app/demo/simulated-run.js';
import type { LockMode, RunEvent } from '../../../sample-app/live/events.js';
import { STORIES } from '../../../sample-app/page/demo/stories.js';

const settings = {
  buyers: 120,
  items: 40,
  delay: [0, 20],
  faults: true,
  actions: [],
} satisfies Partial<RunSettings>;

const seeds = Array.from({ length: 20 }, (_, index) => index + 1);
const someSeeds = process.env.NIGHTLY ? seeds : seeds.slice(0, 2);

function ofType<T extends RunEvent['type']>(events: readonly RunEvent[], type: T) {
  return events.filter((event) => event.type === type) as (RunEvent & { type: T })[];
}

describe('the simulated flash sale', () => {
  const locked: LockMode[] = ['lock', 'lingering', 'strict'];
  it.each(locked)('sells no piece twice with the mode %s, whatever fails', async (mode) => {
    for (const seed of someSeeds) {
      const { events } = await simulateRun({ ...settings, seed, modes: [mode] });
      const [end] = ofType(events, 'sale-ended');
      const left = ofType(events, 'stock-written').map(({ stock }) => stock);
      expect(new Set(left).size, `pieces sold with seed ${seed}`).toBe(left.length);
      expect(end!.orders, `orders with seed ${seed}`).toBe(settings.items - end!.stock!);
    }
  });

  it.each(someSeeds)('sells pieces twice without a lock, seed %i', async (seed) => {
    const { events } = await simulateRun({ ...settings, seed, modes: ['none'], faults: false });
    const [end] = ofType(events, 'sale-ended');
    expect(end).toMatchObject({ orders: settings.buyers, tally: { sold: settings.buyers } });
  });

  it('refuses the write of a holder that was paused beyond its session', async () => {
    const paused = await firstRun(({ events }) => {
      const pause = ofType(events, 'fault').find(({ fault }) => fault === 'pause');
      const [first] = ofType(events, 'write-refused');
      const hadRead = ofType(events, 'stock-read').some(
        ({ purchase }) => purchase === first?.purchase,
      );
      return hadRead && first?.instance === pause?.instance;
    });
    const [refused] = ofType(paused.events, 'write-refused');
    const later = ofType(paused.events, 'granted').filter(
      ({ token, at }) => BigInt(token) > BigInt(refused!.token) && at < refused!.at,
    );
    expect(later[0]?.instance, 'the next holder').not.toBe(refused!.instance);
    expect(ofType(paused.events, 'lost').map(({ lease }) => lease)).toContain(refused!.purchase);
  });

  it('keeps the events before an action of the visitor', async () => {
    const run = { ...settings, seed: 7, modes: ['lock'] } satisfies RunSettings;
    const before = await simulateRun(run);
    const at = before.events.at(-1)!.at / 2;
    const actions: RunSettings['actions'] = [
      { at, instance: 1, action: 'kill' },
      { at: at + 200, instance: 2, action: 'pause' },
      { at: at + 3_000, instance: 2, action: 'resume' },
      { at: at + 4_000, instance: 1, action: 'revive' },
    ];
    const { events } = await simulateRun({ ...run, actions });
    const past = before.events.filter((event) => event.at < at);
    expect(events.slice(0, past.length)).toEqual(past);
    expect(ofType(events, 'died')).toMatchObject([{ instance: 1 }]);
    const [end] = ofType(events, 'sale-ended');
    expect(end!.orders).toBe(settings.items - end!.stock!);
  });

  it('ends a pause and a cut of the visitor after nine seconds', async () => {
    const run = { ...settings, seed: 7, faults: false, modes: ['lock'] } satisfies RunSettings;
    const actions: RunSettings['actions'] = [
      { at: 100, instance: 1, action: 'pause' },
      { at: 100, instance: 2, action: 'cut' },
      { at: 4_100, instance: 2, action: 'heal' },
      { at: 5_100, instance: 2, action: 'cut' },
    ];
    const { events, statuses } = await simulateRun({ ...run, actions });
    const ends = ofType(events, 'fault-ended').map(({ at, instance }) => [
      instance,
      Math.round(at / 100) * 100,
    ]);
    expect(ends).toEqual([
      [2, 4_100],
      [1, 9_100],
      [2, 14_100],
    ]);
    expect(statuses.at(-1)!.instances.map(({ faults }) => faults)).toEqual([[], [], []]);
  });

  it('pauses ZooKeeper for nine seconds, or until the visitor resumes it', async () => {
    const run = { ...settings, seed: 7, faults: false, modes: ['lock'] } satisfies RunSettings;
    for (const resumedAt of [2_100, undefined]) {
      const actions: RunSettings['actions'] = [
        { at: 100, instance: 'zookeeper', action: 'pause' },
        ...(resumedAt ? [{ at: resumedAt, instance: 'zookeeper', action: 'resume' } as const] : []),
      ];
      const { events, statuses } = await simulateRun({ ...run, actions });
      const [begun] = ofType(events, 'fault');
      const [ended] = ofType(events, 'fault-ended');
      expect(begun).toMatchObject({ fault: 'pause' });
      expect(ended!.at - begun!.at).toBeCloseTo(resumedAt ? 2_000 : 9_000, -2);
      const reasons = new Set(ofType(events, 'not-granted').map(({ reason }) => reason));
      expect([...reasons]).toEqual(resumedAt ? [] : ['no-connection']);
      const answers = ofType(events, 'ensemble').map(({ answers }) => answers);
      expect(answers).toEqual([false, true]);
      expect(statuses.some(({ ensemble }) => ensemble.isPaused)).toBe(true);
      const grants = ofType(events, 'granted').filter(
        ({ at }) => at > begun!.at + 2_000 && at < ended!.at,
      );
      expect(grants).toEqual([]);
      const [end] = ofType(events, 'sale-ended');
      expect(end!.orders).toBe(settings.items - end!.stock!);
    }
  });

  it('repeats a run by its seed', async () => {
    const run = { ...settings, seed: 7, modes: ['none', 'lock'] } satisfies RunSettings;
    const [first, second] = [await simulateRun(run), await simulateRun(run)];
    expect(second).toEqual(first);
    expect((await simulateRun({ ...run, seed: 8 })).digest).not.toBe(first.digest);
  });
});

async function firstRun(matches: (run: Awaited<ReturnType<typeof simulateRun>>) => boolean) {
  for (const seed of seeds) {
    const run = await simulateRun({ ...settings, seed, modes: ['lock'] });
    if (matches(run)) return run;
  }
  throw new Error('no seed matches');
}

describe('a story of the documentation', () => {
  it.each(Object.entries(STORIES))(
    'has the events of a story with every seed: %s',
    async (_, story) => {
      for (const seed of seeds) {
        const { events } = await simulateRun({ ...story, seed });
        const [fault] = ofType(events, 'fault');
        const [refused] = ofType(events, 'write-refused');
        expect(refused, `seed ${seed}`).toMatchObject({ instance: fault!.instance });
        const [lost] = ofType(events, 'lost');
        const next = ofType(events, 'granted').find(({ at }) => at > fault!.at)!;
        // A process that is paused learns of the loss when it continues.
        expect(lost!.at < next.at, `seed ${seed}`).toBe(fault!.fault === 'cut');
        const [end] = ofType(events, 'sale-ended');
        expect(end, `seed ${seed}`).toMatchObject({ orders: story.items, stock: 0 });
      }
    },
  );
});
