import type { NodeEvent, WatchKind } from './transport/transport.js';
import type { Watch, WatchEvent } from './types.js';

type Fire = (event: WatchEvent) => void;

/** The kinds of watches that an event of the server fires. */
const KINDS: Readonly<Record<NodeEvent, readonly WatchKind[]>> = {
  created: ['data'],
  changed: ['data'],
  child: ['children'],
  deleted: ['data', 'children'],
};

/**
 * The watches of one session. The server has at most one watch per path and kind, and fires it once; the
 * registry has all Watch objects that wait for it.
 */
export class WatchRegistry {
  /** The number of pending requests that set a watch, by kind and path. */
  readonly #requests = new Map<string, number>();

  /** Watches without a Watch object that stay on the server because a pending request is setting them again. */
  readonly #deferredRemovals = new Set<string>();

  readonly #watches: Readonly<Record<WatchKind, Map<string, Set<Fire>>>> = {
    data: new Map(),
    children: new Map(),
  };

  /** @param onUnused called when the last Watch of a path and kind was removed: the server may remove its watch */
  constructor(private readonly onUnused: (kind: WatchKind, path: string) => void) {}

  /** Registers a pending request that sets a watch. Returns a function to call when it has got its reply or failed. */
  addRequest(kind: WatchKind, path: string): () => void {
    const id = `${kind}:${path}`;
    this.#requests.set(id, (this.#requests.get(id) ?? 0) + 1);
    return () => {
      const left = this.#requests.get(id)! - 1;
      if (left > 0) return void this.#requests.set(id, left);
      this.#requests.delete(id);
      if (this.#deferredRemovals.delete(id) && !this.#watches[kind].has(path))
        this.onUnused(kind, path);
    };
  }

  /** Adds a Watch. To be called with the reply of the request: an event before it belongs to an older watch. */
  add(kind: WatchKind, path: string): Watch {
    const byPath = this.#watches[kind];
    let fire!: Fire;
    const fired = new Promise<WatchEvent>((resolve) => (fire = resolve));
    const waiting = byPath.get(path);
    if (waiting) waiting.add(fire);
    else byPath.set(path, new Set([fire]));
    return {
      fired,
      remove: () => {
        const waiting = byPath.get(path);
        if (!waiting?.delete(fire) || waiting.size > 0) return;
        byPath.delete(path);
        // Removing it from the server now would also remove the watch that a pending request sets.
        const id = `${kind}:${path}`;
        if (this.#requests.has(id)) this.#deferredRemovals.add(id);
        else this.onUnused(kind, path);
      },
    };
  }

  fire(event: NodeEvent, path: string): void {
    for (const kind of KINDS[event]) {
      const waiting = this.#watches[kind].get(path);
      this.#watches[kind].delete(path);
      for (const fire of waiting ?? []) fire(event);
    }
  }

  /** Fires all watches with `session`, because the server has lost them, and perhaps events before. */
  fireAll(): void {
    for (const byPath of Object.values(this.#watches)) {
      const all = [...byPath.values()];
      byPath.clear();
      for (const waiting of all) for (const fire of waiting) fire('session');
    }
  }

  get size(): number {
    return this.#watches.data.size + this.#watches.children.size;
  }
}
