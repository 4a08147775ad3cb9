import { describe, expect, it } from 'vitest';
import type { SaleStatus } from '../../../sample-app/live/events.js';
import { en } from '../../../sample-app/page/messages/en.js';
import { zh } from '../../../sample-app/page/messages/zh.js';
import { EMPTY_RUN, reduce } from '../../../sample-app/page/run/model.js';
import type { RunModel } from '../../../sample-app/page/run/run-model.js';
import { timelineOf } from '../../../sample-app/page/run/timeline-data.js';
import { verdictOf } from '../../../sample-app/page/run/verdict.js';
import { ServerClock } from '../../../sample-app/page/server-clock.js';
import { DEFAULTS, isValid, linkTo, settingsOf } from '../../../sample-app/page/settings.js';
import { type NewEvent, numbered, saleEvents } from '../../support/sale-events.js';

const LANES = ['Instance 1', 'Instance 2', 'Instance 3'];
const PRESENT = { now: 60_000, lanes: LANES, unconfirmedSince: new Map<number, number>() };
const LOCKED = { sale: 1, mode: 'lock', at: 1_000, buyers: 40, items: 10 } as const;

const runOf = (events: readonly NewEvent[]) => reduce(EMPTY_RUN, numbered(events));
const kindsOf = (run: RunModel) => run.log.map(({ kind }) => kind);

const STARTED: NewEvent = {
  ...{ type: 'sale-started', at: 0, sale: 1, goods: 'phone', mode: 'lock' },
  ...{ shares: [10, 10, 10], buyers: 30, items: 10, delay: [5, 10] },
};
const lease = (instance: number, lease: string) => ({ instance, lease, sale: 1 });

/** Instance 1 is paused while it holds the lock with token 9; instance 2 is granted token 10, and the fence refuses. */
const SLEEPING: NewEvent[] = [
  STARTED,
  { type: 'requested', at: 1, ...lease(1, 'a'), key: 'goods' },
  { type: 'requested', at: 2, ...lease(2, 'b'), key: 'goods' },
  { type: 'granted', at: 3, ...lease(1, 'a'), token: '9' },
  { type: 'stock-read', at: 4, instance: 1, sale: 1, purchase: 'a', stock: 10, token: '9' },
  { type: 'fault', at: 5, instance: 1, fault: 'pause' },
  { type: 'granted', at: 6_000, ...lease(2, 'b'), token: '10' },
  { type: 'released', at: 6_050, ...lease(2, 'b') },
  { type: 'fault-ended', at: 7_000, instance: 1, fault: 'pause' },
  { type: 'lost', at: 7_001, ...lease(1, 'a') },
  { type: 'connection', at: 7_002, instance: 1, state: 'LOST' },
  { type: 'write-refused', at: 7_003, instance: 1, sale: 1, purchase: 'a', token: '9' },
  { type: 'connection', at: 7_100, instance: 1, state: 'RECONNECTED' },
];

describe('the model of a run', () => {
  it('is the same in whatever batches its events come, and does not change the model before', () => {
    const events = numbered([...saleEvents(LOCKED), ...SLEEPING.slice(1)]);
    const whole = reduce(EMPTY_RUN, events);
    const parts = Array.from({ length: Math.ceil(events.length / 7) }, (_, i) =>
      events.slice(i * 7, i * 7 + 7),
    );
    expect([...parts, ...parts].reduce(reduce, EMPTY_RUN)).toEqual(whole);
    const before = runOf(SLEEPING.slice(0, 4));
    const copy = structuredClone(before);
    reduce(before, numbered(SLEEPING));
    expect(before).toEqual(copy);
  });

  it('has the lost lease and the refused write in the log, with their tokens', () => {
    const run = runOf(SLEEPING);
    expect(kindsOf(run)).toEqual([
      ...['sale-started', 'fault', 'moved-on', 'fault-ended', 'lease-lost', 'session-lost'],
      ...['write-refused', 'connected'],
    ]);
    const texts = run.log.map((line) => en.logLine(line, undefined));
    expect(texts).toContain('Instance 1 lost its lease with token 9.');
    expect(texts).toContain('The fence refused a late write of instance 1, token 9.');
    expect(texts).toContain('The lock moved on from instance 1 to instance 2.');
  });

  it('keeps the log in the order of time when an instance reports late', () => {
    const [started, ...others] = SLEEPING;
    const late = others.filter(({ at }) => at > 7_000);
    const run = runOf([started!, ...others.filter(({ at }) => at <= 7_000), ...late.toReversed()]);
    const times = run.log.map(({ at }) => at);
    expect(times).toEqual(times.toSorted((a, b) => a - b));
  });

  it('counts equal refusals of the lock in one line', () => {
    const refused = Array.from({ length: 20 }, (_, i): NewEvent => {
      const at = 10 + i;
      return { type: 'not-granted', at, ...lease(1, `r${i}`), reason: 'timed-out' };
    });
    const run = runOf([STARTED, ...refused]);
    expect(run.log.at(-1)).toMatchObject({ kind: 'not-granted', count: 20 });
    expect(en.logLine(run.log.at(-1)!, undefined)).toBe(
      '20 lock requests of instance 1 failed: the wait was too long.',
    );
    expect(run.log).toHaveLength(2);
  });

  it('does not take an undisturbed hand-over for a loss', () => {
    const run = runOf([
      ...SLEEPING.slice(0, 5),
      { type: 'granted', at: 50, ...lease(2, 'b'), token: '10' },
      { type: 'released', at: 49, ...lease(1, 'a') },
    ]);
    expect(kindsOf(run)).toEqual(['sale-started']);
  });
});

describe('the timeline of a sale', () => {
  const timeline = (events: readonly NewEvent[], present = PRESENT) => {
    const run = runOf(events);
    return timelineOf(run, run.sales.get(1), present);
  };

  it('ranks the tokens and connects the grants of different instances', () => {
    const { leases, handOvers } = timeline(saleEvents(LOCKED));
    const ranks = leases.map(({ rank }) => rank!).sort((a, b) => a - b);
    expect(ranks).toEqual(Array.from({ length: 40 }, (_, i) => i + 1));
    for (const [ended, granted] of handOvers) {
      expect(leases[granted]!.rank).toBe(leases[ended]!.rank! + 1);
      expect(leases[granted]!.lane).not.toBe(leases[ended]!.lane);
    }
    expect(handOvers.length).toBeGreaterThan(3);
  });

  it('shows the pause, the refused write, and when the lock moved on from a holder that slept', () => {
    const { leases, bands, writes } = timeline(SLEEPING);
    expect(leases[0]).toMatchObject({
      ...{ granted: 3, ended: 7_001, outcome: 'lost', lockFreedAt: 6_000, rank: 1 },
    });
    expect(bands).toContainEqual({ lane: 0, kind: 'paused', from: 5, until: 7_000 });
    expect(bands).toContainEqual({ lane: 0, kind: 'lost', from: 7_002, until: 7_100 });
    expect(writes).toMatchObject([{ lane: 0, written: 7_003, outcome: 'refused', rank: 1 }]);
  });

  it('ends the bar of a holder that is still paused at the next grant', () => {
    const { leases } = timeline(SLEEPING.slice(0, 7), {
      ...{ lanes: LANES, now: 6_500, unconfirmedSince: new Map() },
    });
    expect(leases[0]).toMatchObject({ granted: 3, ended: undefined, lockFreedAt: 6_000 });
  });

  it('keeps the lock of a dead holder until the next grant', () => {
    const died: NewEvent = { type: 'died', at: 20, instance: 1 };
    const { leases, bands } = timeline([...SLEEPING.slice(0, 5), died, SLEEPING[6]!]);
    expect(leases[0]).toMatchObject({ ended: 20, outcome: 'died', lockFreedAt: 6_000 });
    expect(bands).toContainEqual({ lane: 0, kind: 'dead', from: 20 });
  });

  it('marks each sale of a stock that was sold before', () => {
    const { writes } = timeline(saleEvents({ ...LOCKED, mode: 'none' }));
    const values = new Set(writes.map(({ value }) => value));
    expect(writes.filter(({ outcome }) => outcome === 'written')).toHaveLength(values.size);
    expect(writes.filter(({ outcome }) => outcome === 'overwrote').length).toBeGreaterThan(5);
  });

  it('shows as not confirmed what the page cannot know', () => {
    const { bands } = timeline(SLEEPING.slice(0, 5), {
      ...{ lanes: LANES, now: 5_000, unconfirmedSince: new Map([[2, 3_000]]) },
    });
    expect(bands).toEqual([{ lane: 1, kind: 'unconfirmed', from: 3_000 }]);
  });

  it('remembers when the ensemble was silent', () => {
    const silence: NewEvent[] = [
      { type: 'ensemble', at: 100, answers: false },
      { type: 'ensemble', at: 8_000, answers: true },
    ];
    const { bands } = timeline([STARTED, ...silence]);
    expect(bands).toHaveLength(3);
    expect(bands[0]).toEqual({ lane: 0, kind: 'unconfirmed', from: 100, until: 8_000 });
  });
});

describe('the verdict', () => {
  const judge = (
    [sold, soldOut, refused, unanswered]: [number, number, number, number],
    more: { orders?: number; fell?: number; isOver?: boolean; isRead?: boolean },
  ) => {
    const { orders = sold, fell = orders, isOver = true, isRead = true } = more;
    const tally = { sold, soldOut, refused, unanswered };
    const end: NewEvent = {
      ...{ type: 'sale-ended', at: 9_000, sale: 1, tally },
      ...(isRead && { orders, stock: 10 - fell }),
    };
    const run = runOf(isOver ? [STARTED, end] : [STARTED]);
    const status: SaleStatus = { sale: 1, state: isOver ? 'over' : 'selling', tally, orders };
    return verdictOf(run.sales.get(1)!, status);
  };

  it.each([
    ['exact', 'good', [10, 20, 0, 0], {}, 'Sold exactly 10, none twice.'],
    ['lost-update', 'bad', [10, 20, 0, 0], { fell: 1 }, '10 orders, but the stock fell by 1 only.'],
    [
      ...['unchecked', 'warn', [10, 20, 0, 0], { isRead: false }],
      '10 sold. The database did not answer, so the stock is not checked.',
    ],
    ['oversold', 'bad', [30, 0, 0, 0], {}, 'Oversold: 30 orders for 10 phones.'],
    ['oversold', 'bad', [9, 20, 0, 1], { orders: 11 }, 'Oversold: 11 orders for 10 phones.'],
    ['oversold', 'bad', [11, 0, 0, 19], { isOver: false }, 'Oversold: 11 orders for 10 phones.'],
    ['unanswered', 'warn', [8, 0, 0, 22], {}, 'None sold twice, but 22 buyers got no answer.'],
    ['selling', 'neutral', [10, 0, 0, 20], { isOver: false }, /^10 phones sold\. 20 buyers/],
    ['left', 'warn', [8, 0, 22, 0], {}, '2 phones are left. 22 requests were refused.'],
  ] as const)('is %s, %s, for the answers %j', (kind, tone, answers, more, text) => {
    const verdict = judge([...answers], more);
    expect(verdict).toMatchObject({ kind, tone });
    expect(en.verdict(verdict)).toMatch(text);
    expect(zh.verdict(verdict)).toMatch(/\p{Script=Han}/u);
  });

  it('says why a sale could not run', () => {
    const tally = { sold: 0, soldOut: 0, refused: 0, unanswered: 30 };
    const failure = 'no instance is alive';
    const run = runOf([STARTED, { type: 'sale-ended', at: 1, sale: 1, tally, failure }]);
    const verdict = verdictOf(run.sales.get(1)!, undefined);
    expect(verdict.tone).toBe('warn');
    expect(en.verdict(verdict)).toBe('The sale could not run: no instance is alive.');
  });
});

describe('the settings', () => {
  it('are restored by their link', () => {
    const settings = { mode: 'strict', buyers: 50, items: 7, delay: [5, 9] } as const;
    const link = linkTo(settings, 'http://localhost:3000/?mode=none&x=1#y', 'zh');
    expect(link).toBe('http://localhost:3000/?mode=strict&buyers=50&items=7&delay=5-9&lang=zh');
    expect(settingsOf(new URL(link).search)).toEqual(settings);
  });

  it('say one delay if both are equal', () => {
    expect(settingsOf('?delay=50').delay).toEqual([50, 50]);
    expect(settingsOf('?delay=')).toEqual(DEFAULTS);
    expect(en.lead(50, 50)).toContain('waits 50 ms,');
    expect(zh.lead(50, 50)).toContain('过 50 毫秒');
  });

  it.each(['?buyers=0', '?items=1e2', '?delay=60-20', '?delay=-5', '?buyers=1e9', '?mode=sql'])(
    'of the link %s are valid',
    (search) => {
      const settings = settingsOf(search);
      expect(isValid(settings)).toBe(true);
      expect(settings.mode).toBe(DEFAULTS.mode);
    },
  );
});

it('follows a clock of the server that falls behind', () => {
  const clock = new ServerClock();
  clock.set(performance.now());
  const delay = 5_000;
  for (let i = 0; i < 50; i++) clock.set(performance.now() - delay);
  expect(performance.now() - clock.now).toBeCloseTo(delay, -2);
});

it('has a text in both languages for each event of the log', () => {
  const faults = ['pause', 'cut', 'kill', 'expire'] as const;
  const events = faults.flatMap((fault): NewEvent[] => [
    { type: 'fault', at: 1, instance: 1, fault },
    { type: 'fault-ended', at: 2, instance: 1, fault },
  ]);
  const run = runOf([...SLEEPING, ...events]) satisfies RunModel;
  for (const line of run.log) {
    expect(en.logLine(line, undefined)).toMatch(/^[A-Z][^\n]*[^ ]\.$/);
    expect(zh.logLine(line, undefined)).toMatch(/。$/);
  }
  expect(run.log.length).toBeGreaterThan(12);
});
