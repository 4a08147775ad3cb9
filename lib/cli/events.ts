import { foreignText, type Stat, type ZkClient } from '../client/index.js';
import { showDuration } from './durations.js';
import { type LockState, type LockParticipant, parentOf } from './scan.js';
import { describeParticipant, headingOf } from './tree.js';

/*
 * Events are the differences between two reads. Two reads hide what happens between them:
 *
 *   - A hold that begins and ends between two reads is no event. If its waiter was seen, it is `released` with a note.
 *   - Callers of one process hand a lock over without a request, so they count as one holder.
 *   - A server deletes the znode of a released lock and that of an ended session alike. A session has ended if its znodes
 *     with different parents were deleted by one transaction (`lost`), and continues if it has other znodes. Otherwise
 *     the event is `released` or `resigned` with a note.
 */

/**
 * A line of `watch --json`: a change between two reads. `lost` means that the session of a holder or leader has ended;
 * `gave-up`, that a waiter left the queue.
 */
export interface LockEvent extends Pick<LockState, 'namespace' | 'key' | 'path' | 'recipe'> {
  readonly event: 'granted' | 'released' | 'lost' | 'waiting' | 'gave-up' | 'elected' | 'resigned';
  /** When the change was read, by the clock of this machine. */
  readonly time: Date;
  readonly participant: LockParticipant;
  /** How long the participant waited, milliseconds, of `granted`, `elected` and `gave-up`. */
  readonly waited?: number;
  /** How long it held the lock or led, milliseconds, of `released`, `lost` and `resigned`. */
  readonly held?: number;
  /** What else may have happened. */
  readonly note?: string;
}

interface Seen {
  readonly lock: LockState;
  readonly member: LockParticipant;
  readonly holds: boolean;
  /** When it began to wait or to hold, by `performance.now()`. */
  readonly since: number;
}

/** Compares each read with the last one. */
export class EventLog {
  private seen: ReadonlyMap<string, Seen> | undefined;

  constructor(private readonly client: ZkClient) {}

  /** Resolves to the events since the last call; none at the first call. */
  async update(states: readonly LockState[]): Promise<LockEvent[]> {
    const before = this.seen;
    const now = new Map(states.flatMap((lock) => entriesOf(lock)));
    if (!before) {
      this.seen = now;
      return [];
    }
    const added = [...now].filter(([id]) => !before.has(id));
    const grantedRequests = new Set(
      added.flatMap(([, { lock, member, holds }]) => (holds ? [requestId(lock, member)] : [])),
    );
    const left = [...before].filter(([id]) => !now.has(id) && !grantedRequests.has(id));
    // A scan misses a znode below one whose ACL denies read access.
    const stats = await Promise.all(
      left.map(([, previous]) => this.client.exists(previous.member.path)),
    );
    for (const [index, entry] of left.entries()) if (stats[index]) now.set(...entry);
    const ended = await this.endings(
      left.filter((_, index) => !stats[index]),
      before,
      now,
    );
    const begun: LockEvent[] = [];
    for (const [id, current] of now) {
      const previous = before.get(id);
      if (!previous) {
        const request = before.get(requestId(current.lock, current.member));
        begun.push(
          current.holds ? granted(current, request) : eventOf(current, { event: 'waiting' }),
        );
      } else if (current.holds && !previous.holds) {
        begun.push(granted(current, previous));
        now.set(id, { ...current, since: performance.now() });
      } else {
        now.set(id, { ...current, since: previous.since });
      }
    }
    this.seen = now;
    return [...ended, ...begun];
  }

  private async endings(
    gone: readonly [string, Seen][],
    before: ReadonlyMap<string, Seen>,
    now: ReadonlyMap<string, Seen>,
  ): Promise<LockEvent[]> {
    const present = new Set([...now.values()].map(({ member }) => member.session));
    const members = gone.map(([, { member }]) => member);
    const lost = await this.lostSessions(members.filter(({ session }) => !present.has(session)));
    return gone.map(([, previous]) => {
      const { lock, member, holds } = previous;
      const duration = performance.now() - previous.since;
      const event = lock.recipe === 'election' ? 'resigned' : 'released';
      if (!holds) {
        if (!mayHaveHeld(previous, before, now)) {
          return eventOf(previous, { event: 'gave-up', waited: duration });
        }
        return eventOf(previous, { event, note: 'held between two reads, or gave up' });
      }
      if (lost.has(member.session)) return eventOf(previous, { event: 'lost', held: duration });
      const note = present.has(member.session) ? undefined : 'or its session has ended';
      return eventOf(previous, { event, held: duration, note });
    });
  }

  /** Resolves to the sessions whose znodes with different parents were deleted by one transaction. */
  private async lostSessions(gone: readonly LockParticipant[]): Promise<Set<string>> {
    const parents = new Map<string, Set<string>>();
    for (const { session, path } of gone) {
      parents.set(session, (parents.get(session) ?? new Set()).add(parentOf(path)));
    }
    const lost = new Set<string>();
    for (const [session, paths] of parents) {
      const stats = await Promise.all([...paths].map((path) => this.client.exists(path)));
      const changes = stats.filter((stat): stat is Stat => stat !== undefined);
      if (new Set(changes.map(({ pzxid }) => pzxid)).size < changes.length) lost.add(session);
    }
    return lost;
  }
}

/** Returns a line for people. */
export function eventLine(event: LockEvent): string {
  const { key, waited, held, note } = event;
  const duration = [
    ...(waited === undefined ? [] : [`waited ${showDuration(waited)}`]),
    ...(held === undefined ? [] : [`held ${showDuration(held)}`]),
    ...(note === undefined ? [] : [`(${note})`]),
  ].join(' ');
  const time = event.time.toISOString().replace(/\.\d+/, '');
  const what = `${headingOf(event)}  ${foreignText(key)} (${event.recipe})`;
  return `${time}  ${event.event.padEnd(8)}  ${what}  ${describeParticipant(event.participant)}  ${duration}`.trimEnd();
}

/** Returns the members of a lock by an identity that a wait keeps when it becomes a hold, except in a semaphore. */
function entriesOf(lock: LockState): [string, Seen][] {
  const entry = (member: LockParticipant, holds: boolean): [string, Seen] => {
    const since = performance.now() - Math.max(0, Date.now() - member.since.getTime());
    const isRequest = lock.recipe === 'semaphore' && !holds;
    return [isRequest ? requestId(lock, member) : member.path, { lock, member, holds, since }];
  };
  return [
    ...lock.holders.map((member) => entry(member, true)),
    ...lock.waiters.map((member) => entry(member, false)),
  ];
}

/** A request for permits has another znode than the permits. They have the session in common. */
function requestId({ path }: LockState, { session }: LockParticipant): string {
  return `${path} ${session}`;
}

/** Whether a waiter that has left may have held the lock since the last read. */
function mayHaveHeld(
  previous: Seen,
  before: ReadonlyMap<string, Seen>,
  now: ReadonlyMap<string, Seen>,
): boolean {
  const ofLock = [...before].filter(([, { lock }]) => lock.path === previous.lock.path);
  const isPresent = ([id]: [string, Seen]) => now.has(id);
  if (ofLock.filter(([, { holds }]) => holds).every(isPresent)) return false;
  if (previous.lock.recipe === 'semaphore' || previous.lock.recipe === 'read/write') return true;
  return !ofLock
    .slice(
      0,
      ofLock.findIndex(([, each]) => each === previous),
    )
    .some(isPresent);
}

function granted(current: Seen, previous: Seen | undefined): LockEvent {
  const event = current.lock.recipe === 'election' ? 'elected' : 'granted';
  return eventOf(current, { event, waited: previous && performance.now() - previous.since });
}

function eventOf(
  { lock: { namespace, key, path, recipe }, member }: Seen,
  details: Pick<LockEvent, 'event' | 'waited' | 'held' | 'note'>,
): LockEvent {
  const [waited, held] = [details.waited, details.held].map((ms) => ms && Math.round(ms));
  const lock = { namespace, key, path, recipe };
  return { time: new Date(), ...details, ...lock, participant: member, waited, held };
}
