/*
 * Replays the actions of processes on mutexes in the model of lock.pml. A step has the name that the model prints. Steps that
 * cannot be observed, such as a listing, are searched for: a grant is allowed if there was a state in which the listing that it
 * needs is possible. A fencing token names that state, because it begins with the zxid of the last change before it.
 */

/** The number of tokens of one zxid. */
const TOKENS = 1024n;

/** The steps of lock.pml that a trace shows. */
export const OBSERVED = [
  ...['request', 'cancel', 'create', 'listing arrives', 'write', 'reply to the write arrives'],
  ...['hand over', 'grant while lingering', 'succeed', 'revoked', 'release', 'late release'],
  ...['holdAtMost is over', 'lost, its znode is gone', 'declares its session lost', 'delete'],
  ...['another client deletes its znode', 'expired', 'its former session expires'],
] as const;

export type Step = (typeof OBSERVED)[number];

/** A step that the model does not allow, with the last steps before it. */
export interface Refusal {
  readonly message: string;
  readonly before: readonly string[];
}

export type SessionEnd = 'expired' | 'closed' | 'ended by an operator';

/** A znode in the queue of a lock. */
interface Place {
  readonly node: string;
  readonly session: string;
  readonly sequence: number;
  /** `'robbed'`: deleted by another client, which this client may not know. */
  fate: 'queued' | 'left' | 'robbed' | 'ended with its session';
  /** The token of the last grant. */
  last: bigint | undefined;
  /** The hold that has not ended. */
  holder: object | undefined;
  revoked: boolean;
  /** Whether a strict caller has continued its hold. */
  succeeded: boolean;
}

interface LockState {
  readonly places: Map<string, Place>;
  /** The znodes that exist, in the order of the queue. */
  queue: Place[];
  /** The first znode after each transaction that changed the children of the parent, by its zxid. */
  readonly firstAfter: Map<number, Place | undefined>;
  /** The writes of znodes by their own sessions, by zxid. */
  readonly writes: Map<number, { readonly place: Place; readonly isFirst: boolean }>;
  /** How many waits of each session have ended without a grant and without another one. Each may leave one znode for a while. */
  readonly abandoned: Map<string, number>;
  top: bigint;
}

/** The name and the state of a lock, and a grant of it. */
export interface Grant {
  /** The parent of the queue. */
  readonly lock: string;
  readonly session: string;
  readonly token: bigint;
  readonly kind: string;
  /** Whether the callers of the process have a znode each. */
  readonly strict: boolean;
}

/** The most steps that a refusal shows. */
const SHOWN = 40;
/** The most former znodes of a lock that are remembered. A grant by an older one is refused. */
const REMEMBERED = 500;

/** The model's state of all mutexes of one run. After the first refusal nothing is replayed. */
export class Replay {
  refusal: Refusal | undefined;
  readonly counts = new Map<Step, number>();
  private readonly locks = new Map<string, LockState>();
  private readonly ended = new Map<string, SessionEnd>();
  private readonly holds = new Map<object, { readonly place: Place; readonly lock: LockState }>();
  private readonly steps: string[] = [];

  /**
   * @param raisesPzxid whether a deletion raises the pzxid of the parent, as on Apache ZooKeeper. Otherwise the token is the
   *   zxid of a write of the own znode after the listing.
   */
  constructor(private readonly raisesPzxid: boolean) {}

  // ---- Transactions, in the order in which they are committed ----

  create(lock: string, node: string, session: string, zxid: number, strict: boolean): void {
    const state = this.lock(lock);
    const { places, queue, firstAfter, abandoned } = state;
    const place = newPlace(node, session, Number(node.slice(-10)), 'queued');
    // Rule 1: a process has one znode in the queue, except for that of a wait that ended before the reply to its create. The
    // pending deletions are sent before the create.
    const left = queue.filter((each) => each.session === session);
    const hidden = abandoned.get(session) ?? 0;
    this.step('create', lock, `${node} of ${session}`);
    if (!strict && left.length > hidden)
      this.refuse(`create ${node}, but ${left[0]!.node} of the same session is in the queue`);
    if (places.size > 2 * REMEMBERED) this.forgetOldest(places);
    places.set(node, place);
    queue.push(place);
    queue.sort((a, b) => a.sequence - b.sequence);
    firstAfter.set(zxid, queue[0]);
  }

  /** A write of a znode by its own session. */
  write(lock: string, node: string, zxid: number): void {
    const { places, queue, writes } = this.lock(lock);
    const place = places.get(node);
    if (!place) return;
    if (!this.raisesPzxid) this.step('write', lock, node);
    writes.set(zxid, { place, isFirst: queue[0] === place });
  }

  /** @param by undefined: a client outside of the workload */
  delete(lock: string, node: string, by: string | undefined, zxid: number): void {
    const state = this.lock(lock);
    const place = state.places.get(node);
    if (!place) return;
    const own = by === place.session;
    this.step(own ? 'delete' : 'another client deletes its znode', lock, node);
    if (own && place.holder)
      this.refuse(`delete ${node}, but its holder has not released the lock`);
    if (!own && by !== undefined) this.refuse(`delete ${node} of ${place.session} by ${by}`);
    this.remove(state, place, own ? 'left' : 'robbed', zxid);
  }

  /** @param isFormer whether the client has another session by now */
  endSession(session: string, how: SessionEnd, isFormer: boolean, zxid: number): void {
    this.ended.set(session, how);
    let had = false;
    for (const [name, state] of this.locks) {
      for (const place of state.queue.filter((each) => each.session === session)) {
        had = true;
        this.note(`${name} ${place.node} ends with its session, which is ${how}`);
        const fate = how === 'expired' ? 'ended with its session' : 'robbed';
        this.remove(state, place, fate, zxid);
      }
    }
    if (had && how === 'expired') this.count(isFormer ? 'its former session expires' : 'expired');
  }

  // ---- What a process does ----

  request(lock: string): void {
    this.step('request', lock);
  }

  /** @param isLast whether no caller of the session waits for the lock any more */
  cancel(lock: string, session: string | undefined, isLast: boolean, error: string): void {
    this.step('cancel', lock, `${session}: ${error}`);
    if (error === 'SessionExpiredError') this.refuse('a wait ends with its session');
    if (!isLast || session === undefined) return;
    const { abandoned } = this.lock(lock);
    abandoned.set(session, (abandoned.get(session) ?? 0) + 1);
  }

  grant(hold: object, { lock, session, token, kind, strict }: Grant): void {
    if (this.refusal) return;
    const state = this.lock(lock);
    const what = `${kind} grant of ${lock} to ${session} with token ${format(token)}`;
    this.note(what);
    const end = this.ended.get(session);
    if (end === 'expired' || end === 'closed') return this.refuse(`${what}: its session is ${end}`);
    const place =
      kind === 'cold'
        ? this.listed(state, session, token)
        : this.continued(state, session, token, kind, strict);
    if (typeof place === 'string') return this.refuse(`${what}: ${place}`);
    if (place.revoked) return this.refuse(`${what}: ${place.node} was revoked`);
    const robbed = place.fate === 'robbed';
    const other = [...state.places.values()].find(
      (each) => each.holder && each.session === session && each.fate !== 'robbed',
    );
    if (other && !robbed) return this.refuse(`${what}: ${other.node} still has a holder`);
    if (!robbed && token <= state.top)
      return this.refuse(`${what}: the token does not rise above ${format(state.top)}`);
    if (!robbed) state.top = token;
    place.holder = hold;
    place.last = token;
    this.holds.set(hold, { place, lock: state });
  }

  release(hold: object): void {
    const held = this.end(hold);
    if (held) this.step('release', held.place.node);
  }

  lose(hold: object, why: string): void {
    const held = this.end(hold);
    if (!held) return;
    const { place } = held;
    if (/holdAtMost/.test(why)) return this.step('holdAtMost is over', place.node);
    if (!/a client deleted its znode/.test(why))
      return this.step('declares its session lost', place.node, why);
    this.step('lost, its znode is gone', place.node);
    if (place.fate === 'queued') this.refuse(`lost, its znode is gone: ${place.node} exists`);
  }

  /** A call chain that holds a lock enters it again. */
  reenter(lock: string, session: string | undefined): void {
    const places = [...this.lock(lock).places.values()];
    if (!places.some((each) => each.session === session && each.holder))
      this.refuse(`enter again ${lock} by ${session}, which has no lease`);
  }

  /** The holder has seen that it holds the lock. */
  use(lock: string, token: bigint): void {
    const { places } = this.lock(lock);
    const all = [...places.values()];
    const own = all.find(({ last, holder }) => holder && last === token);
    if (!own || own.fate === 'robbed') return;
    const next = all.find(({ last, holder, fate }) => holder && last! > token && fate !== 'robbed');
    if (next) this.refuse(`two holders believe in their leases: of ${own.node} and ${next.node}`);
  }

  /** The client does not trust its session when it grants the lock. */
  distrust(lock: string, token: bigint): void {
    this.refuse(`grant of ${lock} with token ${format(token)} by a session that is not trusted`);
  }

  /** Another client requests the revocation of a lock, and its holder is notified. */
  revoke(lock: string, token: bigint): void {
    const place = [...this.lock(lock).places.values()].find(
      ({ last, holder }) => holder && last === token,
    );
    if (!place) return;
    this.step('revoked', place.node);
    place.revoked = true;
  }

  lateRelease(): void {
    this.count('late release');
  }

  /**
   * The end of the run: all callers are served, and no znode is left.
   *
   * @param waiting the locks for which callers of running processes wait
   */
  finish(waiting: readonly string[]): void {
    for (const lock of waiting) this.refuse(`a caller waits for ever for ${lock}`);
    for (const { queue } of this.locks.values())
      for (const { node } of queue) this.refuse(`a znode is left: ${node}`);
  }

  /** Returns the znode of a grant after a listing, or why there is none. */
  private listed(
    { firstAfter, writes }: LockState,
    session: string,
    token: bigint,
  ): Place | string {
    if (token % TOKENS !== 0n) return 'it is not the first token of its zxid';
    const zxid = Number(token / TOKENS);
    const written = writes.get(zxid);
    const first = this.raisesPzxid ? firstAfter.get(zxid) : written?.isFirst && written.place;
    if (!first) return this.raisesPzxid ? 'no znode was in the queue' : 'its znode was not written';
    if (first.session !== session)
      return `${first.node} of ${first.session} was first in the queue`;
    if (first.last !== undefined) return `${first.node} was granted the lock before`;
    if (first.fate === 'left') return `${first.node} was deleted`;
    this.count(this.raisesPzxid ? 'listing arrives' : 'reply to the write arrives');
    return first;
  }

  /** Returns the znode of a grant that continues a hold of the same session, or why there is none. */
  private continued(
    { places, writes }: LockState,
    session: string,
    token: bigint,
    kind: string,
    strict: boolean,
  ): Place | string {
    const all = [...places.values()];
    const before = all.find((each) => each.session === session && each.last === token - 1n);
    // The write that renews the tokens is not in the model.
    const renewed = token % TOKENS === 0n ? writes.get(Number(token / TOKENS))?.place : undefined;
    const held = before ?? renewed;
    if (held?.session !== session) return 'no hold of its session has the token before';
    if (held.holder) return `the hold of ${held.node} has not ended`;
    if (!strict) {
      if (held.fate === 'left') return `${held.node} was deleted`;
      this.count(kind === 'lingering' ? 'grant while lingering' : 'hand over');
      return held;
    }
    if (held.revoked) return `${held.node} was revoked`;
    if (held.succeeded) return `the hold of ${held.node} was continued already`;
    const behind = all.filter((each) => each.sequence > held.sequence && each.last === undefined);
    held.succeeded = true;
    if (behind.some((each) => each.session === session && each.fate === 'robbed')) {
      // It may be the grant of the deleted znode or of one behind it, so nothing more can be said about either.
      const unknown = newPlace(`${held.node} continued`, session, held.sequence, 'robbed');
      places.set(unknown.node, unknown);
      this.count('succeed');
      return unknown;
    }
    const next = behind.find(({ fate }) => fate === 'queued');
    if (!next || next.session !== session)
      return `no znode of its session is just behind ${held.node}`;
    this.count('succeed');
    return next;
  }

  private end(hold: object) {
    const held = this.holds.get(hold);
    if (held?.place.holder === hold) held.place.holder = undefined;
    this.holds.delete(hold);
    return held;
  }

  private remove(state: LockState, place: Place, fate: Place['fate'], zxid: number): void {
    place.fate = fate;
    state.queue = state.queue.filter((each) => each !== place);
    state.firstAfter.set(zxid, state.queue[0]);
  }

  private forgetOldest(places: Map<string, Place>): void {
    for (const { node, fate, holder } of [...places.values()].slice(0, -REMEMBERED))
      if (fate !== 'queued' && !holder) places.delete(node);
  }

  private lock(name: string): LockState {
    let state = this.locks.get(name);
    if (!state) {
      const maps = {
        places: new Map(),
        firstAfter: new Map(),
        writes: new Map(),
        abandoned: new Map(),
      };
      this.locks.set(name, (state = { ...maps, queue: [], top: -1n }));
    }
    return state;
  }

  private step(name: Step, ...details: string[]): void {
    this.count(name);
    this.note(`${name} ${details.join(' ')}`);
  }

  private count(name: Step): void {
    if (!this.refusal) this.counts.set(name, (this.counts.get(name) ?? 0) + 1);
  }

  private note(text: string): void {
    this.steps.push(text);
    if (this.steps.length > 2 * SHOWN) this.steps.splice(0, SHOWN);
  }

  private refuse(message: string): void {
    this.refusal ??= { message, before: this.steps.slice(-SHOWN) };
  }
}

function newPlace(node: string, session: string, sequence: number, fate: Place['fate']): Place {
  const grants = { last: undefined, holder: undefined, revoked: false, succeeded: false };
  return { node, session, sequence, fate, ...grants };
}

function format(token: bigint): string {
  return `${token / TOKENS}+${token % TOKENS}`;
}
