import { typedChannel } from '../../client/diagnostics.js';
import type { Candidate } from '../candidate.js';
import type { LeaseLostError, NotLeaderError } from '../errors.js';
import type { Grant } from '../internals/grant.js';
import type { Lock } from '../lock.js';
import type { Term } from '../term.js';
import type { Hold, HoldMessage, LeaderMessage, Wait, WaitMessage } from './messages.js';

/*
 * Where nobody listens, telling is a look at a flag: nothing is made before it.
 */

/** Runs `take`, a caller's wait for `lock`. */
export function telling<T extends Grant | Grant[]>(
  lock: Lock,
  take: () => Promise<T> | T,
): Promise<T> | T {
  return waits.hasSubscribers || holds.hasSubscribers ? told(lock, take) : take();
}

/** The call chain that holds the lock enters it again. */
export function tellReentry(lock: Lock): void {
  if (!waits.hasSubscribers) return;
  const wait = { lock, since: performance.now() };
  waits.publish({ event: 'granted', wait, kind: 're-entered', duration: 0 });
}

export function tellElected(candidate: Candidate, term: Term): void {
  if (leaders.hasSubscribers) leaders.publish({ event: 'elected', candidate, term });
}

export function tellTermOver(candidate: Candidate, term: Term): void {
  if (!leaders.hasSubscribers) return;
  const reason = term.signal.reason as NotLeaderError;
  // Only a loss has a cause.
  const event = reason.cause ? 'demoted' : 'resigned';
  leaders.publish({ event, candidate, term, reason });
}

async function told<T extends Grant | Grant[]>(lock: Lock, take: () => Promise<T> | T): Promise<T> {
  const wait: Wait = { lock, since: performance.now() };
  waits.publish({ event: 'began', wait });
  try {
    const taken = await take();
    const grants = [taken].flat() as Grant[];
    const { kind } = grants[0]!;
    waits.publish({ event: 'granted', wait, kind, duration: performance.now() - wait.since });
    for (const grant of grants) grant.telling = new OpenHold(lock, grant);
    return taken;
  } catch (error) {
    const duration = performance.now() - wait.since;
    waits.publish({ event: outcomeOf(error), wait, duration, error });
    throw error;
  }
}

/** A hold that is told of, as what holds it ends it. */
export class OpenHold implements Hold {
  readonly kind: Hold['kind'];
  readonly fencingToken: bigint;
  readonly since = performance.now();

  constructor(
    readonly lock: Lock,
    grant: Grant,
  ) {
    this.kind = grant.kind;
    this.fencingToken = grant.fencingToken;
    holds.publish({ event: 'began', hold: this });
    // Since the grant it may have been lost already.
    if (grant.lost) this.end(grant.lost);
  }

  end(lost: LeaseLostError | undefined): void {
    const duration = performance.now() - this.since;
    if (lost) holds.publish({ event: 'lost', hold: this, duration, reason: lost });
    else holds.publish({ event: 'released', hold: this, duration });
  }
}

const OUTCOMES: Readonly<Record<string, 'busy' | 'timed-out' | 'cancelled'>> = {
  BUSY: 'busy',
  TIMEOUT: 'timed-out',
  CANCELLED: 'cancelled',
};

function outcomeOf(error: unknown): Exclude<WaitMessage['event'], 'began' | 'granted'> {
  const code = (error as { code?: unknown } | undefined)?.code;
  return (typeof code === 'string' && OUTCOMES[code]) || 'failed';
}

export const waits = typedChannel<WaitMessage>('nestjs-zookeeper:wait');
export const holds = typedChannel<HoldMessage>('nestjs-zookeeper:hold');
export const leaders = typedChannel<LeaderMessage>('nestjs-zookeeper:leader');
