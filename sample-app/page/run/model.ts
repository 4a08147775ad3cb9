import type { RunEvent } from '../../live/events.js';
import { logLineOf } from './log.js';
import type {
  InstanceBandKind,
  InstanceModel,
  LeaseModel,
  LogLine,
  Period,
  PurchaseModel,
  RunModel,
  SaleModel,
} from './run-model.js';

export const EMPTY_RUN: RunModel = {
  lastId: 0,
  latest: 0,
  instances: new Map(),
  sales: new Map(),
  silences: [],
  log: [],
  terms: [],
};

type Writable<T> = { -readonly [K in keyof T]: T[K] };
type DraftSale = Writable<Omit<SaleModel, 'leases' | 'purchases'>> & {
  leases: Map<string, LeaseModel>;
  purchases: Map<string, PurchaseModel>;
};

interface Draft extends Writable<Omit<RunModel, 'instances' | 'sales'>> {
  instances: Map<number, InstanceModel>;
  sales: Map<number, SaleModel>;
  /** Sales whose maps belong to the draft. */
  readonly copied: Map<number, DraftSale>;
  log: LogLine[];
}

/** Adds events to a model. Events that the model already contains change nothing. */
export function reduce(model: RunModel, events: readonly RunEvent[]): RunModel {
  const fresh = events.filter(({ id }) => id > model.lastId);
  if (fresh.length === 0) return model;
  const draft: Draft = {
    ...model,
    instances: new Map(model.instances),
    sales: new Map(model.sales),
    copied: new Map(),
    log: [...model.log],
  };
  for (const event of fresh) {
    apply(draft, event);
    draft.lastId = event.id;
    draft.latest = Math.max(draft.latest, event.at);
    const line = logLineOf(event, draft);
    if (line) addToLog(draft.log, line);
  }
  const { copied: _, ...next } = draft;
  return next;
}

function apply(draft: Draft, event: RunEvent): void {
  const { at } = event;
  switch (event.type) {
    case 'sale-started': {
      const { sale, mode, shares, buyers, items, delay } = event;
      const settings = { sale, mode, shares, buyers, items, delay };
      draft.sales.set(sale, {
        ...settings,
        startedAt: at,
        leases: new Map(),
        purchases: new Map(),
      });
      return;
    }
    case 'sale-ended': {
      const sale = saleOf(draft, event.sale);
      const { tally, stock, orders, failure } = event;
      if (sale) sale.end = { at, tally, stock, orders, failure };
      return;
    }
    case 'requested': {
      const { instance, key } = event;
      changeLease(draft, event, (lease) => ({ ...lease, instance, key, requestedAt: at }));
      return;
    }
    case 'granted':
      changeLease(draft, event, (lease) => ({ ...lease, grantedAt: at, token: event.token }));
      return;
    case 'released':
    case 'lost':
    case 'not-granted': {
      const outcome = event.type === 'not-granted' ? 'not granted' : event.type;
      changeLease(draft, event, (lease) => ({ ...lease, endedAt: at, outcome }));
      return;
    }
    case 'stock-read': {
      const { instance, purchase, token } = event;
      saleOf(draft, event.sale)?.purchases.set(purchase, { instance, readAt: at, token });
      return;
    }
    case 'stock-written':
    case 'write-refused': {
      const { instance, purchase, token } = event;
      const purchases = saleOf(draft, event.sale)?.purchases;
      const readAt = purchases?.get(purchase)?.readAt ?? at;
      purchases?.set(purchase, {
        instance,
        readAt,
        endedAt: at,
        token,
        ...(event.type === 'stock-written'
          ? { outcome: 'written', stock: event.stock }
          : { outcome: 'refused' }),
      });
      return;
    }
    case 'fault':
    case 'fault-ended': {
      const kind = FAULT_BANDS[event.fault];
      if (kind && event.instance !== undefined)
        setBand(draft, event.instance, kind, at, event.type === 'fault');
      return;
    }
    case 'connection': {
      const { instance, state } = event;
      setBand(draft, instance, 'suspended', at, state === 'SUSPENDED');
      setBand(draft, instance, 'lost', at, state === 'LOST');
      if (state === 'LOST') endTerm(draft, instance, at, 'lost');
      return;
    }
    case 'died':
      for (const kind of ['paused', 'cut', 'suspended', 'lost'] as const) {
        setBand(draft, event.instance, kind, at, false);
      }
      setBand(draft, event.instance, 'dead', at, true);
      endTerm(draft, event.instance, at, 'died');
      return;
    case 'started':
      setBand(draft, event.instance, 'dead', at, false);
      return;
    case 'ensemble':
      draft.silences = setPeriod(draft.silences, at, !event.answers, {});
      return;
    case 'caption':
      draft.caption = event;
      if (event.caption === 'start') draft.story = { scenario: event.scenario, from: at };
      else if (draft.story && (event.caption === 'end' || event.caption === 'aborted')) {
        draft.story = { ...draft.story, until: at };
      }
      return;
    case 'leader':
      draft.terms = [...draft.terms, { instance: event.instance, from: at }];
      return;
  }
}

const FAULT_BANDS: Record<string, InstanceBandKind | undefined> = { pause: 'paused', cut: 'cut' };

function saleOf(draft: Draft, number: number | undefined): DraftSale | undefined {
  const sale = number === undefined ? undefined : draft.sales.get(number);
  if (!sale) return undefined;
  let copy = draft.copied.get(sale.sale);
  if (copy !== sale) {
    copy = { ...sale, leases: new Map(sale.leases), purchases: new Map(sale.purchases) };
    draft.copied.set(sale.sale, copy);
    draft.sales.set(sale.sale, copy);
  }
  return copy;
}

function changeLease(
  draft: Draft,
  event: { sale?: number; lease: string; instance: number },
  change: (lease: LeaseModel) => LeaseModel,
): void {
  const leases = saleOf(draft, event.sale)?.leases;
  const lease = leases?.get(event.lease) ?? { instance: event.instance, key: '' };
  leases?.set(event.lease, change(lease));
}

function setBand(
  draft: Draft,
  number: number,
  kind: InstanceBandKind,
  at: number,
  begins: boolean,
): void {
  const instance = draft.instances.get(number) ?? { number, bands: [] };
  const others = instance.bands.filter((band) => band.kind !== kind);
  const own = instance.bands.filter((band) => band.kind === kind);
  const bands = [...others, ...setPeriod(own, at, begins, { kind })];
  draft.instances.set(number, { number, bands });
}

function endTerm(draft: Draft, instance: number, until: number, outcome: 'died' | 'lost'): void {
  draft.terms = draft.terms.map((term) =>
    term.instance === instance && term.until === undefined ? { ...term, until, outcome } : term,
  );
}

/** When the instance died while this lease or purchase was open; undefined if it did not. */
export function diedAt(run: RunModel, { instance, since }: { instance: number; since: number }) {
  const { bands = [] } = run.instances.get(instance) ?? {};
  return bands.find(({ kind, from }) => kind === 'dead' && from >= since)?.from;
}

/** Begins a period, or ends the one that is open. */
function setPeriod<T extends Period>(
  periods: readonly T[],
  at: number,
  begins: boolean,
  rest: Omit<T, keyof Period>,
): readonly T[] {
  const last = periods.at(-1);
  const isOpen = last !== undefined && last.until === undefined;
  if (isOpen === begins) return periods;
  return begins
    ? [...periods, { from: at, ...rest } as T]
    : [...periods.slice(0, -1), { ...last!, until: at }];
}

/** Keeps the log in the order of time: an instance that was paused reports late. */
function addToLog(log: LogLine[], line: LogLine): void {
  const index = log.findLastIndex(({ at }) => at <= line.at);
  const before = log[index];
  if (before && before.count !== undefined && isRepeated(before, line)) {
    log[index] = { ...before, count: before.count + 1 };
  } else log.splice(index + 1, 0, line);
}

const isRepeated = (a: LogLine, b: LogLine) =>
  a.kind === 'not-granted' &&
  b.kind === 'not-granted' &&
  a.instance === b.instance &&
  a.sale === b.sale &&
  a.reason === b.reason;
