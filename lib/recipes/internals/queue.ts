import { NodeError, type Session, type ZkClient } from '../../client/index.js';
import { WaitingNode } from './deadlock/waiting-node.js';
import { enqueue, type Listing, type NewNode } from './enqueue.js';
import { hasLingerMark } from './linger-mark.js';
import { freshNode, queueOf, type QueueNode, type QueueSpec } from './node-names.js';
import { type Look, Tries } from './tries.js';
import { abortable } from './wait.js';
import { inSession, readWithin, stillIn } from './session-retry.js';

/*
 * The queue of ephemeral sequential znodes that the lock recipes share (Curator's LockInternals):
 *
 *   1. Create an ephemeral sequential node under the path and list the path's children.
 *   2. If no node of the queue stands before our own, the turn is ours.
 *   3. Otherwise watch the node just before ours, wait until it goes, and list again. An acquire with
 *      `wait: 0` reads that node first, and is refused unless the node may linger (node-marks.ts).
 *
 * Every way out of the queue deletes our node.
 */

interface TurnOptions {
  /** Aborts when nobody wants the turn anymore. */
  signal: AbortSignal;
  /** Called whenever somebody stands before us, with our node. */
  onBlocked: (node: WaitingNode) => void;
  /** As in {@link NewNode}, for each node that we queue up by. */
  onNamed?: NewNode['onNamed'];
  /** The acquires with `wait: 0` among those that want the turn. Default: none. */
  tries?: Tries;
}

/** What gives the right: nodes of ours, in the one session that made them. */
export interface Place {
  readonly session: Session;
  readonly nodes: readonly string[];
  /** The parent's pzxid in the listing that proved the turn: the latest change among the queue's nodes. */
  readonly pzxid: number;
  /** Who stood behind us in that listing. */
  readonly others: readonly QueueNode[];
  /** What the node says, where that was changed while it waited, and the version of it. */
  readonly said?: { readonly data: Uint8Array; readonly version: number };
}

/**
 * Queues up and resolves at the head of the queue. Where the session ends on the way, or somebody
 * deletes our node, it starts again at the end of the queue. Rejects once `signal` aborts.
 */
export function takeTurn(client: ZkClient, spec: QueueSpec, options: TurnOptions): Promise<Place> {
  return inSession(client, options.signal, (session) => takeTurnIn(session, client, spec, options));
}

async function takeTurnIn(
  session: Session,
  client: ZkClient,
  spec: QueueSpec,
  { signal, onBlocked, onNamed, tries = new Tries() }: TurnOptions,
): Promise<Place | undefined> {
  const { parent, marker: suffix, data } = spec;
  let look = tries.look();
  const created = await enqueue(client, session, {
    parent,
    suffix,
    data,
    mode: 'ephemeral-sequential',
    onNamed,
    signal,
  });
  const path = `${parent}/${created.name}`;
  let waiting: WaitingNode | undefined;
  const list = () => {
    look = tries.look();
    return readWithin(client, session, () => session.children(parent), signal);
  };
  try {
    const own = freshNode(spec, created.name);
    for (let listing: Listing = created.listing ?? (await list()); ; listing = await list()) {
      signal.throwIfAborted();
      // Our own node's absence is no proof of a turn (go-zookeeper's lock took it for one).
      if (!listing.children.includes(own.name)) return undefined;
      const queue = queueOf(spec, listing.children);
      const ahead = spec.nodeAhead(queue, own);
      if (ahead) {
        onBlocked((waiting ??= new WaitingNode(session, path, data)));
        const blocker = { path: `${parent}/${ahead.name}`, client, session, signal };
        await untilWorthAnotherLook(blocker, look);
      } else if (waiting?.busy) {
        // From here on the node's data is its holder's.
        await waiting.busy;
      } else if (session.trusted) {
        const others = queue.filter(({ name }) => name !== own.name);
        const said = waiting && { data: waiting.said, version: waiting.version };
        return { session, nodes: [path], pzxid: listing.stat.pzxid, others, said };
      } else {
        // A pause may have outlived the session between the answer and this line: ask once more.
        await stillIn(client, session, signal);
      }
    }
  } catch (error) {
    await session.discard(path);
    // The queue itself is gone, and our node with it.
    if (error instanceof NodeError && error.code === 'NO_NODE') return undefined;
    throw error;
  } finally {
    if (waiting) waiting.over = true;
  }
}

interface Blocker {
  readonly path: string;
  readonly client: ZkClient;
  readonly session: Session;
  readonly signal: AbortSignal;
}

/**
 * Resolves when the node ahead may be gone, or when a try began after the look. Refuses the tries of the
 * look unless the node ahead may linger: then each of them waits for a short time.
 */
async function untilWorthAnotherLook(
  { path, client, session, signal }: Blocker,
  { tries, arrival }: Look,
): Promise<void> {
  try {
    if (tries.length > 0) {
      // Most tries end here. Without a watch, there is none to remove.
      const { data } = await readWithin(client, session, () => session.get(path), signal);
      const lingers = hasLingerMark(data);
      for (const waiter of tries) {
        if (lingers) waiter.blockedBriefly();
        else waiter.blocked();
      }
      signal.throwIfAborted();
    }
    // A read, because an exists watch would stay behind on a node that is gone (CURATOR-107).
    const { watch } = await readWithin(
      client,
      session,
      () => session.get(path, { watch: true }),
      signal,
    );
    try {
      await abortable(Promise.race([watch.fired, arrival]), signal);
    } finally {
      watch.remove();
    }
  } catch (error) {
    if (!(error instanceof NodeError && error.code === 'NO_NODE')) throw error;
  }
}
