import type { ZkClient } from '../../client/index.js';
import { chainNow, runDetached } from './call-chain.js';
import { type Line, lookAfter } from './deadlock/detector.js';
import type { WaitingNode } from './deadlock/waiting-node.js';
import type { Grant, Recipe } from './grant.js';
import { type HandOverSpec, type Next, Turns } from './hand-over.js';
import type { AcquireOptions } from '../lease.js';
import type { Lock } from '../lock.js';
import { withLingerMark } from './linger-mark.js';
import { holderData } from '../participants.js';
import { type QueueNames, queueOf, type QueueSpec } from './node-names.js';
import { takeTurn } from './queue.js';
import { giveBackController, Roster, takeController } from './fifo-set.js';
import { Tenure } from './tenure.js';
import { Tries } from './tries.js';
import { busy, cancelled, NOBODY_WAITS, Waiter, type Wanted } from './wait.js';

/*
 * All that one process wants of one exclusive lock (lock cohorting: Dice, Marathe and Shavit). Its
 * callers wait here, first in first out, behind a single znode. Whoever releases the lock hands it to the
 * next of them without the network, until others have waited long enough for their turn: then the znode
 * goes, and another one queues up at the end.
 */

type Exclusive = 'mutex' | 'write';

export interface Want {
  readonly wanted: Wanted;
  readonly wait: number;
  readonly signal: AbortSignal | undefined;
  /** What the znode is to say about it as the holder. */
  readonly data: Uint8Array;
  readonly linger: number;
  readonly onDeadlock: AcquireOptions['onDeadlock'];
}

export function wantOf(
  wanted: Wanted,
  { wait = Infinity, signal, details, linger = 0, onDeadlock }: AcquireOptions,
): Want {
  const plain = holderData(details);
  const data = linger > 0 ? withLingerMark(plain) : plain;
  return { wanted, wait, signal, data, linger, onDeadlock };
}

/** What this process has of one kind on each client, by id. It goes with its client. */
export class PerClient<T> {
  private readonly known = new WeakMap<ZkClient, Map<string, T>>();

  of(client: ZkClient): Map<string, T> {
    let own = this.known.get(client);
    if (!own) this.known.set(client, (own = new Map()));
    return own;
  }
}

/** By path. */
const owners: Readonly<Record<Exclusive, PerClient<Owner>>> = {
  mutex: new PerClient(),
  write: new PerClient(),
};

/** The one owner of this lock in this process. It is there as long as it has or wants the lock. */
export function ownerOf(lock: Lock, recipe: Exclusive, names: QueueNames): Owner {
  const siblings = owners[recipe].of(lock.client);
  return siblings.get(lock.path) ?? new Owner(lock, recipe, names, siblings);
}

export class OwnerWaiter extends Waiter<Grant> implements Next {
  /** Of whoever made it: what becomes of it may be decided in another's. */
  readonly from = chainNow();

  constructor(
    readonly want: Want,
    onEnd: (waiter: Waiter<Grant>) => void,
  ) {
    super(want.wanted, want.wait, want.signal, want.data, onEnd);
  }

  get linger(): number {
    return this.want.linger;
  }

  take(grant: Grant): void {
    this.resolve(grant);
  }
}

class Owner implements Line, HandOverSpec {
  waiting: WaitingNode | undefined;
  readonly waiters = new Roster<OwnerWaiter>();
  /** The first of the waiters: behind a patient one, a try is refused. */
  private readonly tries = new Tries();
  readonly client: ZkClient;
  readonly path: string;
  readonly queue: string;
  private readonly spec: Omit<QueueSpec, 'data'>;
  private turns: Turns | undefined;
  private serving = false;
  /** The turn that is waited for. Aborted when the last waiter leaves: then nobody wants it. */
  private turn: AbortController | undefined;

  constructor(
    { client, path }: Lock,
    readonly recipe: Exclusive,
    names: QueueNames,
    private readonly siblings: Map<string, Owner>,
  ) {
    this.client = client;
    this.path = this.queue = path;
    this.spec = { ...names, parent: path };
  }

  get behind(): string | undefined {
    return this.turns?.node;
  }

  acquire(want: Want): Promise<Grant> | Grant {
    const { wanted, wait, signal } = want;
    if (signal?.aborted) return Promise.reject(cancelled(wanted, signal));
    const { turns } = this;
    const grant = turns?.join(want);
    if (grant) return grant;
    // Tries that wait here prove nothing: the lock may have been released since they were blocked.
    const patientAhead = this.waiters.size > this.tries.size;
    if (wait === 0 && (patientAhead || (turns && !turns.idle))) return Promise.reject(busy(wanted));
    const waiter = new OwnerWaiter(want, this.leave);
    this.waiters.add(waiter);
    this.tries.add(waiter);
    lookAfter(waiter, this, want.onDeadlock, waiter.from);
    if (turns) turns.goOn();
    else if (!this.serving) this.start();
    return waiter.promise;
  }

  private start(): void {
    this.serving = true;
    this.siblings.set(this.path, this);
    // The loop outlives this caller and must not count as a holder of what the caller holds.
    runDetached(() => void this.serve());
  }

  /** One tenure after another, as long as anybody waits. */
  private async serve(): Promise<void> {
    for (let first; (first = this.waiters.first);) {
      const turn = (this.turn = takeController());
      try {
        const { tries } = this;
        const place = await takeTurn(
          this.client,
          { ...this.spec, data: first.data },
          { signal: turn.signal, onBlocked: (node) => (this.waiting = node), tries },
        );
        this.turn = undefined;
        giveBackController(turn);
        this.turns = new Turns(this.client, this, place, first);
        if (this.turns.granted) for (const waiter of tries) waiter.blocked();
        await this.turns.over;
      } catch (error) {
        if (!turn.signal.aborted) for (const waiter of this.waiters) waiter.reject(error);
      }
      this.turns = undefined;
    }
    this.serving = false;
    this.siblings.delete(this.path);
  }

  isOther(children: readonly string[]): boolean {
    return queueOf(this.spec, children).length > 1;
  }

  next(): OwnerWaiter | undefined {
    return this.waiters.first;
  }

  private readonly leave = (waiter: Waiter<Grant>): void => {
    this.waiters.delete(waiter as OwnerWaiter);
    this.tries.delete(waiter);
    if (this.waiters.size === 0) this.turn?.abort(NOBODY_WAITS);
  };
}

/** One caller's wait in the ensemble's queue, by a node of its own. */
export async function queueAlone(
  lock: Lock,
  recipe: Recipe,
  { wait = Infinity, signal, details, onDeadlock }: AcquireOptions,
  names: QueueNames,
): Promise<Grant> {
  if (signal?.aborted) throw cancelled(lock, signal);
  const { client, path } = lock;
  const data = holderData(details);
  // Until it is taken. An abort that nobody needs costs more than a hand-over.
  let turn: AbortController | undefined = new AbortController();
  const waiter = new Waiter<Grant>(lock, wait, signal, data, () => turn?.abort(NOBODY_WAITS));
  const line: Line = { client, waiters: [waiter], waiting: undefined, behind: undefined };
  lookAfter(waiter, line, onDeadlock, chainNow());
  const tries = new Tries();
  tries.add(waiter);
  takeTurn(
    client,
    { ...names, parent: path, data },
    { signal: turn.signal, onBlocked: (node) => (line.waiting = node), tries },
  ).then(
    (place) => {
      turn = undefined;
      const grant = new Tenure(client, recipe, path, place).grant();
      if (!waiter.resolve(grant)) grant.abandon();
    },
    (error: unknown) => waiter.reject(error),
  );
  return waiter.promise;
}
