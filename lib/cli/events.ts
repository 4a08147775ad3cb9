import type { Stat, ZkClient } from '../client/index.js';
import { showDuration } from './durations.js';
import { type Member, parentOf, type Snapshot } from './scan.js';
import { describeMember, headingOf, plain } from './tree.js';

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
export interface LockEvent extends Pick<Snapshot, 'namespace' | 'key' | 'path' | 'recipe'> {
  readonly event: 'granted' | 'released' | 'lost' | 'waiting' | 'gave-up' | 'elected' | 'resigned';
  /** When the change was read, by the clock of this machine. */
  readonly time: Date;
  readonly participant: Member;
  /** How long the participant waited, milliseconds, of `granted`, `elected` and `gave-up`. */
  readonly waited?: number;
  /** How long it held the lock or led, milliseconds, of `released`, `lost` and `resigned`. */
  readonly held?: number;
  /** What else may have happened. */
  readonly note?: string;
}

interface Seen {
  readonly lock: Snapshot;
  readonly member: Member;
  readonly holds: boolean;
  /** When it began to wait or to hold, by `performance.now()`. */
  readonly since: number;
}

/** Compares each read with the last one. */
export class EventLog {
  private seen: ReadonlyMap<string, Seen> | undefined;

  constructor(private readonly client: ZkClient) {}

  /** Resolves to the events since the last call; none at the first call. */
  async update(snapshots: readonly Snapshot[]): Promise<LockEvent[]> {
    const before = this.seen;
    const now = new Map(snapshots.flatMap((lock) => entriesOf(lock)));
    if (!before) {
      this.seen = now;
      return [];
    }
    const added = [...now].filter(([id]) => !before.has(id));
    const admitted = new Set(
      added.flatMap(([, { lock, member, holds }]) => (holds ? [requestId(lock, member)] : [])),
    );
    const left = [...before].filter(([id]) => !now.has(id) && !admitted.has(id));
    // A scan misses a znode below one that an ACL forbids to read.
    const stats = await Promise.all(left.map(([, was]) => this.client.exists(was.member.path)));
    for (const [index, entry] of left.entries()) if (stats[index]) now.set(...entry);
    const ended = await this.endings(
      left.filter((_, index) => !stats[index]),
      before,
      now,
    );
    const begun: LockEvent[] = [];
    for (const [id, is] of now) {
      const was = before.get(id);
      if (!was) {
        const request = before.get(requestId(is.lock, is.member));
        begun.push(is.holds ? granted(is, request) : eventOf(is, { event: 'waiting' }));
      } else if (is.holds && !was.holds) {
        begun.push(granted(is, was));
        now.set(id, { ...is, since: performance.now() });
      } else {
        now.set(id, { ...is, since: was.since });
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
    return gone.map(([, was]) => {
      const { lock, member, holds } = was;
      const duration = performance.now() - was.since;
      const event = lock.recipe === 'election' ? 'resigned' : 'released';
      if (!holds) {
        if (!mayHaveHeld(was, before, now)) {
          return eventOf(was, { event: 'gave-up', waited: duration });
        }
        return eventOf(was, { event, note: 'held between two reads, or gave up' });
      }
      if (lost.has(member.session)) return eventOf(was, { event: 'lost', held: duration });
      const note = present.has(member.session) ? undefined : 'or its session has ended';
      return eventOf(was, { event, held: duration, note });
    });
  }

  /** Resolves to the sessions whose znodes with different parents were deleted by one transaction. */
  private async lostSessions(gone: readonly Member[]): Promise<Set<string>> {
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
  const what = `${headingOf(event)}  ${plain(key)} (${event.recipe})`;
  return `${time}  ${event.event.padEnd(8)}  ${what}  ${describeMember(event.participant)}  ${duration}`.trimEnd();
}

/** Returns the members of a lock by an identity that a wait keeps when it becomes a hold, except in a semaphore. */
function entriesOf(lock: Snapshot): [string, Seen][] {
  const entry = (member: Member, holds: boolean): [string, Seen] => {
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
function requestId({ path }: Snapshot, { session }: Member): string {
  return `${path} ${session}`;
}

/** Whether a waiter that has left may have held the lock since the last read. */
function mayHaveHeld(
  was: Seen,
  before: ReadonlyMap<string, Seen>,
  now: ReadonlyMap<string, Seen>,
): boolean {
  const ofLock = [...before].filter(([, { lock }]) => lock.path === was.lock.path);
  const isPresent = ([id]: [string, Seen]) => now.has(id);
  if (ofLock.filter(([, { holds }]) => holds).every(isPresent)) return false;
  if (was.lock.recipe === 'semaphore' || was.lock.recipe === 'read/write') return true;
  return !ofLock
    .slice(
      0,
      ofLock.findIndex(([, each]) => each === was),
    )
    .some(isPresent);
}

function granted(is: Seen, was: Seen | undefined): LockEvent {
  const event = is.lock.recipe === 'election' ? 'elected' : 'granted';
  return eventOf(is, { event, waited: was && performance.now() - was.since });
}

function eventOf(
  { lock: { namespace, key, path, recipe }, member }: Seen,
  details: Pick<LockEvent, 'event' | 'waited' | 'held' | 'note'>,
): LockEvent {
  const [waited, held] = [details.waited, details.held].map((ms) => ms && Math.round(ms));
  const lock = { namespace, key, path, recipe };
  return { time: new Date(), ...details, ...lock, participant: member, waited, held };
}
