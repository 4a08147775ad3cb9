import { performance } from 'node:perf_hooks';
import type { Session, ZkClient } from '../client/index.js';
import { ProcessState } from '../client/process-state.js';
import { ShortLivedMap } from '../client/short-lived-map.js';
import { DelayedWatches, WATCH_AFTER } from './delayed-watches.js';
import { NodeWatch } from './node-watch.js';
import type { Listing } from './own-node.js';

/*
 * Strict order within a process. With `fairness: 'strict'` each caller has a znode of its own, and its place among the
 * callers of all processes. When the holder by the znode just ahead is a caller of the same session, and has released, its
 * successor holds the lock at once, before the deletion of that znode is confirmed:
 *
 *   - Nobody else can be next. The znode ahead was at the head of the queue, and later znodes have higher sequence
 *     numbers. Only the read znode that a writer creates beside its own has not; then this does not apply.
 *   - Both znodes end with one session, so the successor trusts the session as it does after a listing.
 *   - The tokens of the holder are continued. A holder of another session lists the queue after the deletion of both
 *     znodes, so its token is higher.
 *
 * One exclusive caller continues a hold. If another client deletes the znode of a caller that waits, two of them can be
 * directly behind one hold.
 *
 * It does not apply behind a reader, because other readers may hold the lock with it; after a revocation, the loss of the
 * znode or of the session, or a transaction that may still be applied; if the hold had a read znode beside it, or was part of
 * a multi-lock; and for permits, whose znodes have no order. Then the caller lists the queue, as across processes.
 */

/** A hold of this process that was released, and that the next one of its session may continue. */
export interface ReleasedHold {
  /** The zxid of its fencing tokens. */
  readonly zxid: number;
  /** The number of tokens of that zxid that are used. */
  readonly tokens: number;
}

/** The znode of a strict caller that waits for the lock or holds it. */
interface Place {
  readonly session: Session;
  /** Set when it was released. */
  hold: ReleasedHold | undefined;
  /** Whether a caller has continued the hold. */
  taken: boolean;
  /** Called when the caller has left its place. */
  readonly followers: Set<() => void>;
}

const state = new ProcessState(() => ({
  /** By znode. A released one remains until its deletion is confirmed: listings that were sent before have it. */
  places: new ShortLivedMap<string, Place>(),
  /** The listings that are sent at the next tick. */
  listings: new Map<Session, Map<string, Promise<Listing>>>(),
  delayedWatches: new DelayedWatches(),
}));

/** Called when a strict caller has a znode in the queue. */
export function takePlace(node: string, session: Session): void {
  const { places } = state.current;
  if (places.has(node)) return;
  places.set(node, { session, hold: undefined, taken: false, followers: new Set() });
}

/**
 * Called when the deletion of the znode was sent.
 *
 * @param hold what the caller held, if its successor may continue it
 */
export function leavePlace(node: string, deleted: Promise<void>, hold?: ReleasedHold): void {
  const { places } = state.current;
  const place = places.get(node);
  if (!place || place.hold) return;
  place.hold = hold;
  const forget = () => places.delete(node);
  if (hold) deleted.then(forget, forget);
  else forget();
  for (const notify of place.followers) notify();
}

/**
 * Lists a parent once for all strict callers that ask before the next tick. Their creates are sent together then, because no
 * listing is between them.
 */
export function listTogether(session: Session, parent: string): Promise<Listing> {
  const { listings } = state.current;
  const ofSession = listings.get(session) ?? new Map<string, Promise<Listing>>();
  listings.set(session, ofSession);
  let listing = ofSession.get(parent);
  if (!listing) {
    listing = new Promise((resolve) => {
      process.nextTick(() => {
        ofSession.delete(parent);
        if (ofSession.size === 0) listings.delete(session);
        resolve(session.children(parent));
      });
    });
    ofSession.set(parent, listing);
  }
  return listing;
}

/** The wait of a strict caller for its turn. */
export class Succession {
  readonly watchAt = performance.now() + WATCH_AFTER;
  private ownWatch: NodeWatch | undefined;
  private wake: () => void = () => {};
  private leave: () => void = () => {};

  /**
   * @param node the znode of the caller
   * @param shared whether others may hold the lock with it, as readers do
   */
  constructor(
    private readonly client: ZkClient,
    private readonly session: Session,
    private readonly node: string,
    private readonly shared: boolean,
  ) {
    state.current.delayedWatches.add(this);
  }

  watchNodes(): void {
    const { client, session, node } = this;
    const deleted = () => this.wake();
    this.ownWatch = new NodeWatch(client, { session, nodes: [node] }, { deleted, read: () => {} });
  }

  /**
   * Resolves when the caller by the znode `ahead` has left its place, or our own znode is gone. Undefined if no strict caller
   * of this session has that place, or if its hold was continued already: then our caller must watch the znode.
   */
  untilTurn(ahead: string): Promise<void> | undefined {
    this.leave();
    const place = this.placeOf(ahead);
    if (!place) return undefined;
    return new Promise((resolve) => {
      this.wake = resolve;
      if (place.hold) return resolve();
      place.followers.add(resolve);
      this.leave = () => void place.followers.delete(resolve);
    });
  }

  /** Whether the caller may continue the hold by the znode `ahead`: then the lock is ours without a listing. */
  mayFollow(ahead: string): boolean {
    return this.holdBy(ahead) !== undefined;
  }

  /** Returns the hold that ours continues. No other exclusive caller can continue it then. */
  follow(ahead: string): ReleasedHold | undefined {
    const hold = this.holdBy(ahead);
    if (hold) this.placeOf(ahead)!.taken = true;
    return hold;
  }

  private holdBy(ahead: string): ReleasedHold | undefined {
    // After the watch has fired, our znode may be gone.
    if (this.ownWatch?.isSet === false || !this.session.trusted) return undefined;
    const place = this.placeOf(ahead);
    // Of two callers directly behind one, another client has deleted the znode of the first.
    if (!this.shared && place && place.followers.size > 1) return undefined;
    return place?.hold;
  }

  /** Returns the place of a caller of this session, unless another exclusive caller has continued its hold. */
  private placeOf(node: string): Place | undefined {
    const place = state.current.places.get(node);
    if (place?.session !== this.session || (place.taken && !this.shared)) return undefined;
    return place;
  }

  stop(): void {
    this.leave();
    state.current.delayedWatches.delete(this);
    this.ownWatch?.stop();
  }
}
