import { percentile } from '../percentile.js';

/** The limit of a resignation: this many times the median latency of a create. */
const CREATES = 3;
/** The limit of all other faults: the session timeout and this many ticks, since sessions expire at ticks. */
const TICKS = 2;

export type FaultKind = 'kills' | 'resignations' | 'expiries' | 'drops';

/** Times are milliseconds on one clock. Tokens are fencing tokens of terms. */
export type Event =
  /** Recorded by the instance. */
  | { type: 'elected' | 'ended'; instance: string; token: bigint; at: number }
  /** Recorded by the store. */
  | { type: 'write'; instance: string; token: bigint; accepted: boolean; at: number }
  /** Recorded before the fault is injected. */
  | {
      type: 'fault';
      kind: FaultKind;
      instance: string;
      token: bigint;
      /** Whether other processes kept the machine busy meanwhile. */
      disturbed?: boolean;
      at: number;
    }
  | { type: 'exited'; instance: string; at: number };

export interface Setting {
  readonly sessionTimeout: number;
  readonly tickTime: number;
  /** Latencies of creates in milliseconds. */
  readonly creates: readonly number[];
}

interface Term {
  readonly instance: string;
  readonly token: bigint;
  readonly elected: number;
  readonly ended: number;
  /** The last fault that was injected into the leader. */
  readonly fault: Extract<Event, { type: 'fault' }> | undefined;
}

/**
 * Checks the history of an election for two leaders at a time, stale writes, falling tokens, and times
 * without a leader that no fault explains or that last too long.
 */
export function judge(history: readonly Event[], { sessionTimeout, tickTime, creates }: Setting) {
  const terms = termsOf(history);
  const medianCreate = percentile(creates, 0.5);
  const expiry = sessionTimeout + TICKS * tickTime;
  const limits: Record<FaultKind, number> = {
    kills: expiry,
    resignations: CREATES * (medianCreate ?? NaN),
    expiries: expiry,
    drops: expiry,
  };
  const failovers: Record<FaultKind, number[]> = {
    kills: [],
    resignations: [],
    expiries: [],
    drops: [],
  };
  const disturbed: number[] = [];
  const failures: string[] = [];
  /** Milliseconds for which a leader did not know that its session had ended. */
  const unaware: number[] = [];
  const overlaps = staleWrites(history);

  for (const [index, term] of terms.entries()) {
    const next = terms[index + 1];
    if (!next) break;
    if (next.token <= term.token) {
      failures.push(`token ${next.token} of ${next.instance} came after ${term.token}`);
    }
    const late = term.ended - next.elected;
    if (late > 0 && couldNotKnow(term, next, sessionTimeout)) unaware.push(late);
    else if (late > 0) {
      overlaps.push(`${term.instance} still led ${ms(late)} after ${next.instance} was elected`);
    }
    if (!term.fault) {
      failures.push(`${next.instance} replaced ${term.instance} without a fault`);
      continue;
    }
    const { kind, at } = term.fault;
    // A resignation counts from the end of the term; other faults count from before they are injected.
    const took = next.elected - (kind === 'resignations' ? term.ended : at);
    if (term.fault.disturbed) {
      disturbed.push(took);
      continue;
    }
    failovers[kind].push(took);
    if (took > limits[kind]) {
      failures.push(`${kind}: no leader for ${ms(took)}, more than ${ms(limits[kind])}`);
    }
  }
  const refusedWrites = history.filter((event) => event.type === 'write' && !event.accepted).length;
  return {
    failures: [...overlaps, ...failures],
    overlaps: overlaps.length,
    failovers,
    disturbed,
    survived: survived(history, terms),
    limits,
    medianCreate,
    creates,
    unaware,
    refusedWrites,
  };
}

type Elected = Extract<Event, { type: 'elected' | 'ended' }>;

/** Returns the terms in the order in which they began. */
function termsOf(history: readonly Event[]): Term[] {
  return history
    .filter((event): event is Elected => event.type === 'elected')
    .toSorted((a, b) => a.at - b.at)
    .map(({ instance, token, at }): Term => {
      const end = history.find(
        (event) =>
          event.instance === instance &&
          (event.type === 'exited' || (event.type === 'ended' && event.token === token)),
      );
      const fault = history.findLast(
        (event): event is NonNullable<Term['fault']> =>
          event.type === 'fault' && event.token === token,
      );
      return { instance, token, elected: at, ended: end?.at ?? Infinity, fault };
    });
}

/**
 * Returns whether the leader was not yet able to know that its term was over: it learns of the expiry of
 * its session from the server, or at the latest by its own session deadline.
 */
function couldNotKnow({ fault, ended }: Term, next: Term, sessionTimeout: number): boolean {
  return (
    fault?.kind === 'expiries' && fault.at < next.elected && ended - fault.at <= sessionTimeout
  );
}

/**
 * For the store, a term begins with the first write under its token, accepted or not, because a leader does
 * nothing before. No write of an earlier term may be accepted after that.
 */
function staleWrites(history: readonly Event[]): string[] {
  let highest = -1n;
  const stale: string[] = [];
  for (const event of history) {
    if (event.type !== 'write') continue;
    const { instance, token, accepted } = event;
    if (token > highest) highest = token;
    else if (token < highest && accepted) {
      stale.push(`a write of ${instance} under token ${token} was accepted after ${highest}`);
    }
  }
  return stale;
}

/** Returns how many dropped connections did not end the leadership. */
function survived(history: readonly Event[], terms: readonly Term[]): number {
  const drops = history.filter((event) => event.type === 'fault' && event.kind === 'drops');
  const ending: (Event | undefined)[] = terms.slice(0, -1).map(({ fault }) => fault);
  return drops.filter((drop) => !ending.includes(drop)).length;
}

function ms(value: number): string {
  return `${value.toFixed(2)} ms`;
}
