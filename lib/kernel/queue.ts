import { NodeError, type Session, type Stat, type ZkClient } from '../client/index.js';
import { isCode } from '../client/errors.js';
import { onAbort } from '../client/sleep.js';
import { connectedSession } from '../client/zk-client.js';
import { hasLingerMark, NodeData } from './node-data.js';
import { freshNode, type QueueNode, queueOf, type QueueSpec } from './node-names.js';
import {
  type Listing,
  type NewNode,
  protectedCreate,
  type SentCreate,
  uniqueId,
} from './own-node.js';
import type { QueuePosition } from './queue-position.js';
import { retryAcrossSessions, retryRead } from './session-retry.js';
import { leavePlace, listTogether, Succession, takePlace } from './succession.js';
import { untilYielded } from './time-slice.js';

/*
 * The queue of ephemeral sequential znodes that all locks use (Curator's LockInternals):
 *
 *   1. Create an ephemeral sequential znode under the path, and list the children of the path.
 *   2. If no other znode of the queue is ahead of it, the lock is ours.
 *   3. Otherwise watch the znode just ahead until it is deleted, and list again. For a try (an acquire with `wait: 0`)
 *      read that znode first: the try is refused unless the znode may linger (node-data.ts).
 *
 * Whenever the wait ends in another way, the znode is deleted.
 */

/** An acquire with `wait: 0`: a Waiter. */
interface Try {
  /** @param why a sentence about the holder */
  blocked(why?: string): void;
  blockedBriefly(): void;
  unblocked(): void;
}

/**
 * The tries that wait for one znode of this process. A listing of the queue decides only about tries that arrived before
 * it was requested.
 */
export class Tries {
  /** The number of the try that arrived last. Read it before the queue is listed. */
  lastArrival = 0;
  private numbered: { readonly waiter: Try; readonly arrival: number }[] = [];
  private onArrival: (() => void) | undefined;

  get size(): number {
    return this.numbered.length;
  }

  add(waiter: Try): void {
    this.numbered.push({ waiter, arrival: ++this.lastArrival });
    this.onArrival?.();
  }

  delete(waiter: Try): void {
    this.numbered = this.numbered.filter((each) => each.waiter !== waiter);
  }

  /** Returns the tries that arrived up to a number. */
  upTo(lastArrival: number): Try[] {
    return this.numbered
      .filter(({ arrival }) => arrival <= lastArrival)
      .map(({ waiter }) => waiter);
  }

  /** Resolves when a try with a higher number arrives. */
  after(lastArrival: number): Promise<void> {
    return new Promise((resolve) => {
      if (this.lastArrival > lastArrival) resolve();
      else this.onArrival = resolve;
    });
  }
}

/** The znode just ahead of our own. */
interface Blocker {
  readonly path: string;
  /** Whether it holds the lock. Otherwise it waits as well. */
  readonly isFirst: boolean;
}

export type BlockingNode = Blocker & { readonly data: Buffer; readonly stat: Stat };

interface QueueOptions {
  client: ZkClient;
  spec: QueueSpec;
  /** The data of the znode that joins the queue. */
  data: Uint8Array;
  /** Aborts when no caller waits for the lock any more. */
  signal: AbortSignal;
  /** Called with the data of our znode whenever a listing shows another one ahead of it. */
  onBlocked: (node: NodeData) => void;
  /** Returns a sentence about the znode just ahead, if there is more to say than that it blocks. Called after each read of it. */
  whyBlocked: (node: BlockingNode, session: Session) => string | undefined;
  /** As in {@link NewNode}, for each znode that joins the queue. */
  onNamed?: NewNode['onNamed'];
  /** The tries among the callers that wait for this znode. Default: none. */
  tries?: Tries;
  /** The first attempt to join the queue, if {@link joinQueue} made it. */
  firstAttempt?: FirstAttempt | undefined;
  /** Set if the znode may succeed one of the same session without a listing, see succession.ts. */
  strict?: { readonly shared: boolean } | undefined;
}

/** The create and the listing of an attempt that did not grant the lock. */
export interface FirstAttempt {
  readonly sent: SentCreate;
  /** The try that arrived last before it was made. */
  readonly lastTry: number;
}

/**
 * Joins the queue, and grants the lock at once if it is free: the usual case, without a promise. Returns false without
 * a connection.
 *
 * @param onNotGranted called if the create failed, or if another znode is ahead; {@link waitInQueue} continues from there
 */
export function joinQueue(
  client: ZkClient,
  spec: QueueSpec,
  data: Uint8Array,
  lastTry: number,
  onGranted: (position: QueuePosition) => void,
  onNotGranted: (firstAttempt: FirstAttempt) => void,
): boolean {
  const session = connectedSession(client);
  if (!session) return false;
  const id = uniqueId();
  session.createAndList(spec.parent, id + spec.marker, data, (error, path, listing) => {
    if (path && listing && isFree(session, spec, path, listing)) {
      const { children, stat } = listing;
      return onGranted({ session, nodes: [path], zxid: stat.pzxid, children });
    }
    const created = error ? Promise.reject<string>(error) : Promise.resolve(path!);
    onNotGranted({ sent: { session, id, created, listing }, lastTry });
  });
  return true;
}

function isFree(session: Session, spec: QueueSpec, path: string, listing: Listing): boolean {
  try {
    const { children } = listing;
    const own = freshNode(spec, path.slice(spec.parent.length + 1));
    if (!children.includes(own.name) || !session.trusted || !raisesPzxid(session)) return false;
    return children.length === 1 || spec.nodeAhead(queueOf(spec, children), own) === undefined;
  } catch {
    // waitInQueue() finds the same error, and deletes the znode.
    return false;
  }
}

/**
 * Joins the queue and resolves when our znode is at its head. After the session has ended, or another process has
 * deleted the znode, it joins again at the end.
 *
 * @throws the reason of `signal`; what {@link protectedCreate} throws
 */
export function waitInQueue(options: QueueOptions): Promise<QueuePosition> {
  const { client, tries = new Tries() } = options;
  let { firstAttempt } = options;
  const attempt = (session: Session) => {
    const wait = { ...options, session, tries, firstAttempt };
    firstAttempt = undefined;
    return waitInSession(wait);
  };
  return retryAcrossSessions(client, options.signal, attempt, firstAttempt?.sent.session);
}

/**
 * Returns whether the deletion of a holder's znode raises the pzxid of the parent, so that the pzxid in the listing of the
 * next holder is the zxid of a transaction after the end of the hold. Apache ZooKeeper does so. On ClickHouse Keeper only
 * creates raise the pzxid (ClickHouse issue 115457), so two holders in succession can list the same pzxid: the token of the
 * second one would be equal, or lower if the first one has renewed its tokens by a write. On such a server the client
 * writes its own znode after the listing that grants the lock, and uses the zxid of that write. A lock without contention
 * needs the write too, because another holder may list and release between our create and our listing.
 */
function raisesPzxid({ serverKind }: Session): boolean {
  return serverKind === 'zookeeper';
}

/** A wait for a lock in one session. */
type SessionWait = QueueOptions & { readonly session: Session; readonly tries: Tries };

/** Resolves to undefined if the znode was deleted: then the caller joins the queue again. */
async function waitInSession(wait: SessionWait): Promise<QueuePosition | undefined> {
  const { client, session, spec, data, signal, tries, firstAttempt, strict } = wait;
  const { onBlocked, onNamed } = wait;
  const { parent, marker: suffix } = spec;
  let lastTry = firstAttempt?.lastTry ?? tries.lastArrival;
  const list = () => {
    lastTry = tries.lastArrival;
    return retryRead(client, session, () => session.children(parent), signal);
  };
  const mode = 'ephemeral-sequential';
  const node = { parent, suffix, data, mode, onNamed, signal, sent: firstAttempt?.sent } as const;
  const created = await protectedCreate(
    client,
    session,
    strict ? { ...node, list: listTogether } : node,
  );
  const path = `${parent}/${created.name}`;
  const written = new NodeData(session, path, data);
  let rewritten: number | undefined;
  let succession: Succession | undefined;
  if (strict) takePlace(path, session);
  try {
    const own = freshNode(spec, created.name);
    for (let listing = created.listing ?? (await list()); ; listing = await list()) {
      signal.throwIfAborted();
      const { children, stat } = listing;
      const blocker = blockerOf(spec, own, children);
      if (blocker) {
        onBlocked(written);
        if (strict) succession ??= new Succession(client, session, path, strict.shared);
        await untilChange(wait, blocker, lastTry, succession);
        if (!succession?.mayFollow(blocker.path)) continue;
        await untilYielded();
        signal.throwIfAborted();
        const hold = written.pending ? undefined : succession.follow(blocker.path);
        if (!hold) continue;
        return { session, ...hold, nodes: [path], children, written };
      }
      const zxid = raisesPzxid(session) ? stat.pzxid : (rewritten ??= await rewrite(wait, written));
      // From here on only the holder writes the znode.
      if (written.pending) await written.pending;
      // Otherwise a pause may have outlived the session after the reply.
      else if (session.trusted) return { session, nodes: [path], zxid, children, written };
    }
  } catch (error) {
    // Also after NO_NODE: a server that lags may have sent a listing without our znode, and the next waiter would wait behind it.
    const deleted = session.guaranteedDelete(path);
    leavePlace(path, deleted);
    await deleted;
    // NO_NODE: our znode is gone, perhaps with its parent. BAD_VERSION: another process has written it twice.
    if (error instanceof NodeError && ['NO_NODE', 'BAD_VERSION'].includes(error.code)) return;
    throw error;
  } finally {
    written.waiting = false;
    succession?.stop();
  }
}

/** Returns the znode just ahead of our own, if there is one. */
function blockerOf(spec: QueueSpec, own: QueueNode, children: readonly string[]) {
  const pathOf = ({ name }: QueueNode) => `${spec.parent}/${name}`;
  // The absence of our own znode does not prove that the lock is ours (go-zookeeper's lock assumed it).
  if (!children.includes(own.name)) throw new NodeError('NO_NODE', pathOf(own), -101, 'children');
  const queue = queueOf(spec, children);
  const ahead = spec.nodeAhead(queue, own);
  return ahead && { path: pathOf(ahead), isFirst: !spec.nodeAhead(queue, ahead) };
}

/** Writes our znode again. Resolves to the zxid of the write. */
async function rewrite(wait: SessionWait, own: NodeData): Promise<number> {
  const { client, session, signal, tries } = wait;
  // No znode is ahead any more, so no try is refused during the write.
  for (const each of tries.upTo(Infinity)) each.unblocked();
  return (await retryRead(client, session, () => own.rewrite(), signal)).mzxid;
}

/** Resolves when the znode ahead may be gone, or when a try arrives after the last listing. */
async function untilChange(
  wait: SessionWait,
  blocker: Blocker,
  lastTry: number,
  succession: Succession | undefined,
): Promise<void> {
  const { client, session, signal, tries, whyBlocked } = wait;
  try {
    const early = tries.upTo(lastTry);
    if (early.length > 0) await refuse(early, wait, blocker);
    const turn = succession?.untilTurn(blocker.path);
    if (turn) return await firstOf([turn, tries.after(lastTry)], signal);
    // A read, because the watch of an exists request would remain on a znode that is gone (CURATOR-107).
    const read = () => session.get(blocker.path, { watch: true });
    const { watch, data, stat } = await retryRead(client, session, read, signal);
    try {
      whyBlocked({ ...blocker, data, stat }, session);
      await firstOf([watch.fired, tries.after(lastTry)], signal);
    } finally {
      watch.remove();
    }
  } catch (error) {
    if (!isCode(error, 'NO_NODE')) throw error;
  }
}

/** Refuses tries, unless the znode ahead may linger: then each of them waits for a short time. */
async function refuse(early: Try[], wait: SessionWait, blocker: Blocker): Promise<void> {
  const { client, session, signal, whyBlocked } = wait;
  // Most tries end here. A read without a watch leaves no watch to remove.
  const { data, stat } = await retryRead(client, session, () => session.get(blocker.path), signal);
  const lingers = hasLingerMark(data);
  const why = lingers ? undefined : whyBlocked({ ...blocker, data, stat }, session);
  for (const each of early) {
    if (lingers) each.blockedBriefly();
    else each.blocked(why);
  }
  signal.throwIfAborted();
}

/**
 * Resolves with the first of some promises that never reject. Takes fewer microtasks than `Promise.race`: the listing of
 * the next holder must not be sent after the create with which the last holder queues again, or it waits for that write.
 *
 * @throws the reason of `signal`
 */
function firstOf(changes: readonly Promise<unknown>[], signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const removeListener = onAbort(signal, () => reject(signal.reason));
    const onChange = () => {
      removeListener();
      resolve();
    };
    for (const change of changes) void change.then(onChange);
  });
}
