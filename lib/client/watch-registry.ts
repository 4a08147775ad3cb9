import { BadOptionError } from './errors.js';
import { Listeners } from './listeners.js';
import { ShortLivedMap } from './short-lived-map.js';
import type { NodeEvent, WatchKind } from './transport/transport.js';
import type { PersistentWatch, Watch, WatchEvent, WatchNotification } from './types.js';

type Fire = (event: WatchEvent) => void;

/** The kinds of watches that an event of the server fires. */
const KINDS: Readonly<Record<NodeEvent, readonly WatchKind[]>> = {
  created: ['data'],
  changed: ['data'],
  child: ['children'],
  deleted: ['data', 'children'],
};

/** A persistent watch of the server. */
interface ServerWatch {
  readonly recursive: boolean;
  /** The listeners of its PersistentWatch objects. */
  readonly listeners: Listeners<WatchNotification>;
  /** The number of pending requests that set it. */
  requests: number;
  /** Whether the server has set it. */
  isSet: boolean;
}

/**
 * The watches of one session. The server has at most one watch per path and kind, and fires it once; the
 * registry has all Watch objects that wait for it.
 *
 * A server before 3.9 replaces a persistent watch by a one-time watch of the same path, and removes both together.
 * Therefore the client sends no one-time watch for a path whose persistent watch gets the same events. The persistent
 * watch then stays on the server until neither kind has a listener.
 */
export class WatchRegistry {
  /** The number of pending requests that set a one-time watch, by kind and path. */
  readonly #requests = new ShortLivedMap<string, number>();

  /** Watches to remove from the server after a pending request: removed now, they would take its watch along. */
  readonly #deferredRemovals = new Set<string>();

  readonly #watches: Readonly<Record<WatchKind, ShortLivedMap<string, Set<Fire>>>> = {
    data: new ShortLivedMap(),
    children: new ShortLivedMap(),
  };

  readonly #persistent = new Map<string, ServerWatch>();

  /** @param onUnused called when the last Watch of a path and kind was removed: the server may remove its watch */
  constructor(private readonly onUnused: (kind: WatchKind | 'any', path: string) => void) {}

  /** Registers a pending request that sets a watch. Returns a function to call when it has got its reply or failed. */
  addRequest(kind: WatchKind, path: string): () => void {
    const id = `${kind}:${path}`;
    this.#requests.set(id, (this.#requests.get(id) ?? 0) + 1);
    return () => {
      const left = this.#requests.get(id)! - 1;
      if (left > 0) return void this.#requests.set(id, left);
      this.#requests.delete(id);
      if (this.#deferredRemovals.delete(id) && !this.#watches[kind].has(path))
        this.#removeUnused(kind, path);
      else this.#removePersistent(path);
    };
  }

  /** Whether a persistent watch, set or being set, gets the events of one-time watches. */
  covers(kind: WatchKind, path: string): boolean {
    const serverWatch = this.#persistent.get(path);
    return serverWatch !== undefined && (kind === 'data' || !serverWatch.recursive);
  }

  /**
   * Adds a Watch. To be called with the reply of the request: an event before it belongs to an older watch.
   *
   * @param covered whether the request set no watch, because a persistent one covered it
   */
  add(kind: WatchKind, path: string, covered: boolean): Watch {
    // The request for the persistent watch has failed. The caller reads again.
    if (covered && !(this.covers(kind, path) && this.#persistent.get(path)!.isSet)) {
      return { fired: Promise.resolve('session'), remove: () => {} };
    }
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
        this.#removeUnused(kind, path);
      },
    };
  }

  /**
   * Registers a request that sets a persistent watch. Returns a function to call with the reply, which adds the
   * PersistentWatch, and one to call afterwards or when the request has failed.
   *
   * @throws BadOptionError if the path has a persistent watch of the other mode
   */
  requestPersistent(
    path: string,
    recursive: boolean,
  ): {
    add(listener: (notification: WatchNotification) => void): PersistentWatch;
    end(): void;
  } {
    const serverWatch = this.#persistent.get(path) ?? {
      recursive,
      listeners: new Listeners(),
      requests: 0,
      isSet: false,
    };
    if (serverWatch.recursive !== recursive) {
      const expected = `${serverWatch.recursive}, as in the other persistent watch of this session on ${path}`;
      throw new BadOptionError('recursive', recursive, expected);
    }
    this.#persistent.set(path, serverWatch);
    serverWatch.requests++;
    return {
      add: (listener) => {
        serverWatch.isSet = true;
        // A recursive watch does not report changes of the children, and has replaced the one-time watch that does.
        if (recursive) this.#fireOnce('children', path, 'session');
        const removeListener = serverWatch.listeners.add(listener);
        return {
          remove: () => {
            removeListener();
            this.#removePersistent(path);
          },
        };
      },
      end: () => {
        serverWatch.requests--;
        this.#removePersistent(path);
      },
    };
  }

  fire(event: NodeEvent, path: string): void {
    for (const kind of KINDS[event]) this.#fireOnce(kind, path, event);
    if (this.#persistent.size === 0) return;
    const own = this.#persistent.get(path);
    if (own && !(own.recursive && event === 'child')) own.listeners.emit({ event, path });
    if (event !== 'child') {
      // A walk from parent to parent would take quadratic time if a server sends a long path without a slash.
      for (const [above, serverWatch] of this.#persistent) {
        if (serverWatch.recursive && isBelow(path, above)) {
          serverWatch.listeners.emit({ event, path });
        }
      }
    }
    this.#removePersistent(path);
  }

  /** Fires all watches with `session`, because the server has lost them, and perhaps events before. */
  fireAll(): void {
    for (const byPath of Object.values(this.#watches)) {
      const all = byPath.values();
      byPath.clear();
      for (const waiting of all) for (const fire of waiting) fire('session');
    }
    const persistent = [...this.#persistent];
    this.#persistent.clear();
    for (const [path, { listeners }] of persistent) {
      listeners.emit({ event: 'session', path });
      listeners.clear();
    }
  }

  get size(): number {
    return this.#watches.data.size + this.#watches.children.size + this.#persistent.size;
  }

  #fireOnce(kind: WatchKind, path: string, event: WatchEvent): void {
    const waiting = this.#watches[kind].get(path);
    this.#watches[kind].delete(path);
    for (const fire of waiting ?? []) fire(event);
  }

  #removeUnused(kind: WatchKind, path: string): void {
    if (this.#persistent.has(path)) return this.#removePersistent(path);
    // Removing it from the server now would also remove the watch that a pending request sets.
    const id = `${kind}:${path}`;
    if (this.#requests.has(id)) this.#deferredRemovals.add(id);
    else this.onUnused(kind, path);
  }

  /** Removes a persistent watch that no PersistentWatch, no one-time watch and no pending request needs. */
  #removePersistent(path: string): void {
    const serverWatch = this.#persistent.get(path);
    if (!serverWatch || serverWatch.listeners.size > 0 || serverWatch.requests > 0) return;
    if (!serverWatch.isSet) return void this.#persistent.delete(path);
    for (const kind of ['data', 'children'] as const) {
      if (this.#watches[kind].has(path) || this.#requests.has(`${kind}:${path}`)) return;
    }
    this.#persistent.delete(path);
    this.onUnused('any', path);
  }
}

function isBelow(path: string, above: string): boolean {
  return path !== above && path.startsWith(above === '/' ? above : `${above}/`);
}
