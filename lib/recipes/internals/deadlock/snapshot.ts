import type { Session } from '../../../client/index.js';
import { lastBefore, type QueueNode, queueOf } from '../node-names.js';
import { type Claim, claimsIn } from './claims.js';

/** The znodes of the locks whose holders are known: mutex, read lock, write lock. */
const READ = '__READ__';
const WRITE = '__WRIT__';
const MARKERS = ['lock-', READ, WRITE];

/** The most requests of one snapshot. A cycle beyond them is not found. */
const MOST_READS = 256;

/** The queues and claims of the ensemble at about one time. Nothing is read twice. */
export class Snapshot {
  private readonly queues = new Map<string, Promise<readonly QueueNode[]>>();
  private readonly claims = new Map<string, Promise<readonly Claim[]>>();
  private reads = 0;

  /** Returns the znodes that must be deleted before `node` holds its lock; none if it is not in its queue. */
  async ahead(session: Session, node: string): Promise<string[]> {
    const parent = parentOf(node);
    const queue = await this.queue(session, parent);
    const own = queue.find(({ name }) => `${parent}/${name}` === node);
    return own ? blockersOf(queue, own).map(({ name }) => `${parent}/${name}`) : [];
  }

  /** Returns the znodes that wait until `node` is deleted. */
  async behind(session: Session, node: string): Promise<string[]> {
    const parent = parentOf(node);
    const queue = await this.queue(session, parent);
    return queue
      .filter((other) => blockersOf(queue, other).some(({ name }) => `${parent}/${name}` === node))
      .map(({ name }) => `${parent}/${name}`);
  }

  /** Returns the claims of a znode that waits. */
  claimsOf(session: Session, node: string): Promise<readonly Claim[]> {
    return this.once(this.claims, `${session.id}${node}`, [], async () =>
      claimsIn((await session.get(node)).data),
    );
  }

  private queue(session: Session, parent: string): Promise<readonly QueueNode[]> {
    return this.once(this.queues, `${session.id}${parent}`, [], async () => {
      const { children } = await session.children(parent);
      return queueOf({ parent, markers: MARKERS }, children);
    });
  }

  private once<T>(
    known: Map<string, Promise<T>>,
    key: string,
    nothing: T,
    read: () => Promise<T>,
  ): Promise<T> {
    let found = known.get(key);
    if (!found) {
      found = ++this.reads > MOST_READS ? Promise.resolve(nothing) : read().catch(() => nothing);
      known.set(key, found);
    }
    return found;
  }
}

/** Returns the znodes ahead of `own` that exclude it, or that exclude one of those. */
function blockersOf(queue: readonly QueueNode[], own: QueueNode): QueueNode[] {
  const excluding = own.marker === READ ? queue.filter(({ marker }) => marker === WRITE) : queue;
  const last = lastBefore(excluding, own);
  return last ? queue.filter((node) => node === last || node.sequence < last.sequence) : [];
}

function parentOf(node: string): string {
  return node.slice(0, node.lastIndexOf('/'));
}
