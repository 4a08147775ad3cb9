import { typedChannel } from '../client/diagnostics.js';
import type { ZkClient } from '../client/index.js';
import type {
  ConnectFailedMessage,
  ConnectionMessage,
  DeleteRefusedMessage,
} from '../client/zk-client.js';
import type { LeaseLostError, NotLeaderError } from './errors.js';
import type { Term } from './term.js';
import type { Deadlock, GrantKind, LockKind, Participant } from './types.js';

/*
 * Messages on the channels of `node:diagnostics_channel`. The same object stands for a wait, a hold or a term in all
 * messages about it, so a subscriber can use it as a key. No message is built while nobody is subscribed.
 */

/**
 * The lock of a message. It is a {@link Lock}.
 *
 * @publicApi
 */
export interface ObservedLock {
  readonly client: ZkClient;
  readonly key: string;
  /**
   * The word for it in messages.
   *
   * @internal
   */
  readonly noun: 'lock' | 'semaphore';
  /** The parent znode. */
  readonly path: string;
  readonly recipe: LockKind;
  /** As {@link Lock.participants}. */
  participants(): Promise<Participant[]>;
}

/**
 * The participant of an election in a message. It is a {@link Candidate}.
 *
 * @publicApi
 */
export interface ObservedCandidate {
  readonly client: ZkClient;
  readonly key: string;
  /** The parent znode. */
  readonly path: string;
  readonly id: string;
}

/**
 * The wait of one caller for a lock.
 *
 * @publicApi
 */
export interface Wait {
  readonly lock: ObservedLock;
  /** When it began, by `performance.now()`. */
  readonly since: number;
}

/**
 * A message on the channel `nestjs-zookeeper:wait`. Each wait begins and ends once. A re-entry waits for nothing: its
 * `'granted'` comes alone, with a `Wait` of its own.
 *
 * @publicApi
 */
export type WaitMessage =
  | { readonly event: 'began'; readonly wait: Wait }
  | {
      readonly event: 'granted';
      readonly wait: Wait;
      readonly kind: GrantKind;
      /** Milliseconds. */
      readonly duration: number;
    }
  | {
      /** `'busy'`: it was a try, and the lock was held. */
      readonly event: 'busy' | 'timed-out' | 'cancelled' | 'failed';
      readonly wait: Wait;
      /** Milliseconds. */
      readonly duration: number;
      /** The error that the caller gets. */
      readonly error: unknown;
    };

/**
 * A grant of a lock, until its last lease is released or it is lost.
 *
 * @publicApi
 */
export interface Hold {
  readonly lock: ObservedLock;
  readonly kind: GrantKind;
  readonly fencingToken: bigint;
  /** When it began, by `performance.now()`. */
  readonly since: number;
}

/**
 * A message on the channel `nestjs-zookeeper:hold`. Each hold begins and ends once.
 *
 * @publicApi
 */
export type HoldMessage =
  | { readonly event: 'began'; readonly hold: Hold }
  | {
      readonly event: 'released';
      readonly hold: Hold;
      /** Milliseconds. */
      readonly duration: number;
    }
  | {
      readonly event: 'lost';
      readonly hold: Hold;
      /** Milliseconds. */
      readonly duration: number;
      readonly reason: LeaseLostError;
    };

/**
 * A message on the channel `nestjs-zookeeper:leader`. A term ends because the leader gives it up, `'resigned'`, or
 * because it is lost, `'demoted'`.
 *
 * @publicApi
 */
export type LeaderMessage =
  | { readonly event: 'elected'; readonly candidate: ObservedCandidate; readonly term: Term }
  | {
      readonly event: 'resigned' | 'demoted';
      readonly candidate: ObservedCandidate;
      readonly term: Term;
      readonly reason: NotLeaderError;
    };

/** A message: a lock or an election waits for a process of this host that ended without closing its session. */
interface DeadHolderMessage {
  readonly client: ZkClient;
  /** The znode of the process. */
  readonly path: string;
  /** Whether it is the first message of this client about the znode. */
  readonly first: boolean;
  readonly message: string;
}

/** Published when a waiting candidate sees a leader that differs from the previous one. */
interface FollowMessage {
  readonly candidate: ObservedCandidate;
  readonly leader: { readonly id: string; readonly session: string };
}

/**
 * The messages on the channels of `node:diagnostics_channel`, by the name of the channel:
 * `message as DiagnosticsMessages['nestjs-zookeeper:hold']`. The same object stands for a wait, a hold or a term in all
 * messages about it.
 *
 * @publicApi
 */
export interface DiagnosticsMessages {
  'nestjs-zookeeper:connect-failed': ConnectFailedMessage;
  'nestjs-zookeeper:connection': ConnectionMessage;
  'nestjs-zookeeper:dead-holder': DeadHolderMessage;
  'nestjs-zookeeper:deadlock': Deadlock;
  'nestjs-zookeeper:delete-refused': DeleteRefusedMessage;
  'nestjs-zookeeper:follow': FollowMessage;
  'nestjs-zookeeper:hold': HoldMessage;
  'nestjs-zookeeper:leader': LeaderMessage;
  'nestjs-zookeeper:wait': WaitMessage;
}

export const waits = typedChannel<WaitMessage>('nestjs-zookeeper:wait');
export const holds = typedChannel<HoldMessage>('nestjs-zookeeper:hold');
export const leaders = typedChannel<LeaderMessage>('nestjs-zookeeper:leader');
export const deadHolders = typedChannel<DeadHolderMessage>('nestjs-zookeeper:dead-holder');
export const follows = typedChannel<FollowMessage>('nestjs-zookeeper:follow');

/** What diagnostics need of a grant of a lock. */
interface ObservedGrant {
  readonly kind: GrantKind;
  readonly fencingToken: bigint;
  readonly lost: LeaseLostError | undefined;
  onEnd: ((lost: LeaseLostError | undefined) => void) | undefined;
}

/** Runs `acquire` and publishes the wait of its caller, if somebody is subscribed. */
export function publishWait<T extends ObservedGrant | ObservedGrant[]>(
  lock: ObservedLock,
  acquire: () => Promise<T> | T,
): Promise<T> | T {
  return waits.hasSubscribers || holds.hasSubscribers ? observed(lock, acquire) : acquire();
}

/** Publishes that the call chain that holds a lock enters it again. */
export function publishReentry(lock: ObservedLock): void {
  if (!waits.hasSubscribers) return;
  const wait = { lock, since: performance.now() };
  waits.publish({ event: 'granted', wait, kind: 're-entered', duration: 0 });
}

export function publishElected(candidate: ObservedCandidate, term: Term): void {
  if (leaders.hasSubscribers) leaders.publish({ event: 'elected', candidate, term });
}

export function publishTermOver(candidate: ObservedCandidate, term: Term): void {
  if (!leaders.hasSubscribers) return;
  const reason = term.signal.reason as NotLeaderError;
  // Only a loss has a cause.
  const event = reason.cause ? 'demoted' : 'resigned';
  leaders.publish({ event, candidate, term, reason });
}

async function observed<T extends ObservedGrant | ObservedGrant[]>(
  lock: ObservedLock,
  acquire: () => Promise<T> | T,
): Promise<T> {
  const wait: Wait = { lock, since: performance.now() };
  waits.publish({ event: 'began', wait });
  try {
    const acquired = await acquire();
    const grants = [acquired].flat() as ObservedGrant[];
    const { kind } = grants[0]!;
    waits.publish({ event: 'granted', wait, kind, duration: performance.now() - wait.since });
    for (const grant of grants) publishHold(lock, grant);
    return acquired;
  } catch (error) {
    const duration = performance.now() - wait.since;
    waits.publish({ event: outcomeOf(error), wait, duration, error });
    throw error;
  }
}

function publishHold(lock: ObservedLock, grant: ObservedGrant): void {
  const { kind, fencingToken } = grant;
  const hold: Hold = { lock, kind, fencingToken, since: performance.now() };
  holds.publish({ event: 'began', hold });
  grant.onEnd = (reason) => {
    const duration = performance.now() - hold.since;
    if (reason) holds.publish({ event: 'lost', hold, duration, reason });
    else holds.publish({ event: 'released', hold, duration });
  };
  // It may have been lost since it was granted.
  if (grant.lost) grant.onEnd(grant.lost);
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
