import { performance } from 'node:perf_hooks';
import type { ZkClient } from '../client/index.js';
import type { LockKind } from './types.js';

/*
 * `linger: 'auto'`. A process that acquires a lock again soon after its release keeps the znode twice as long as it was
 * free the last time. Once another process has requested the lock while it lingered, it stops lingering until it
 * has been used twice more.
 */

/** Milliseconds. A lock that was free for longer does not linger. */
const MAX_LINGER = 100;
/** Milliseconds. A shorter time would end before a caller that is only a little late. */
const MIN_LINGER = 10;
/** The most locks of a client that are remembered; those that were released last. */
const MAX_LOCKS = 1000;

interface Lock {
  readonly recipe: LockKind;
  readonly path: string;
}

/** When this process last released its locks. */
export class Affinity {
  private static readonly ofClients = new WeakMap<ZkClient, Affinity>();
  /** By `performance.now()`. */
  private recent = new Map<string, number>();
  private earlier = new Map<string, number>();

  static of(client: ZkClient): Affinity {
    let affinity = Affinity.ofClients.get(client);
    if (!affinity) Affinity.ofClients.set(client, (affinity = new Affinity()));
    return affinity;
  }

  /** Returns the milliseconds for which a lock lingers that is acquired now; 0 for none. */
  lingerOf(lock: Lock): number {
    const id = idOf(lock);
    const since = this.recent.get(id) ?? this.earlier.get(id);
    const free = since === undefined ? Infinity : performance.now() - since;
    return free > MAX_LINGER ? 0 : Math.min(MAX_LINGER, Math.max(MIN_LINGER, 2 * free));
  }

  onReleased(lock: Lock): void {
    const id = idOf(lock);
    if (this.recent.size >= MAX_LOCKS / 2 && !this.recent.has(id)) {
      this.earlier = this.recent;
      this.recent = new Map();
    }
    this.recent.set(id, performance.now());
  }

  forget(lock: Lock): void {
    this.recent.delete(idOf(lock));
    this.earlier.delete(idOf(lock));
  }
}

const idOf = ({ recipe, path }: Lock) => `${recipe} ${path}`;
