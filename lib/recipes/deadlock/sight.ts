import type { Session } from '../../client/index.js';
import { lastBefore, type QueueNode, queueOf } from '../queue-names.js';
import { type Claim, claimsIn } from './claims.js';

/** The nodes of the locks whose holders are known: mutex, read, write. */
const READ = '__READ__';
const WRITE = '__WRIT__';
const MARKERS = ['lock-', READ, WRITE];

/** Requests of one look. A cycle beyond them is not found. */
const MOST_READS = 256;

/** What the ensemble shows at one time: nothing is asked for twice. */
export class Sight {
  private readonly queues = new Map<string, Promise<readonly QueueNode[]>>();
  private readonly said = new Map<string, Promise<readonly Claim[]>>();
  private reads = 0;

  /** The nodes that have to go before `node` has its turn; none where it is not there. */
  async ahead(session: Session, node: string): Promise<string[]> {
    const parent = parentOf(node);
    const queue = await this.queue(session, parent);
    const own = queue.find(({ name }) => `${parent}/${name}` === node);
    return own ? blockersOf(queue, own).map(({ name }) => `${parent}/${name}`) : [];
  }

  /** The nodes that have their turn only after `node` went. */
  async behind(session: Session, node: string): Promise<string[]> {
    const parent = parentOf(node);
    const queue = await this.queue(session, parent);
    return queue
      .filter((other) => blockersOf(queue, other).some(({ name }) => `${parent}/${name}` === node))
      .map(({ name }) => `${parent}/${name}`);
  }

  /** What a node that waits says that it holds. */
  claims(session: Session, node: string): Promise<readonly Claim[]> {
    return this.once(this.said, `${session.id}${node}`, [], async () =>
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
    what: string,
    nothing: T,
    read: () => Promise<T>,
  ): Promise<T> {
    let found = known.get(what);
    if (!found) {
      found = ++this.reads > MOST_READS ? Promise.resolve(nothing) : read().catch(() => nothing);
      known.set(what, found);
    }
    return found;
  }
}

/** All who stand before it and exclude it, or exclude one of those. */
function blockersOf(queue: readonly QueueNode[], own: QueueNode): QueueNode[] {
  const excluding = own.marker === READ ? queue.filter(({ marker }) => marker === WRITE) : queue;
  const last = lastBefore(excluding, own);
  return last ? queue.filter((node) => node === last || node.sequence < last.sequence) : [];
}

function parentOf(node: string): string {
  return node.slice(0, node.lastIndexOf('/'));
}
