import type { NodeEvent, WatchKind } from './transport/transport.js';
import type { Watch, WatchEvent } from './types.js';

type Fire = (event: WatchEvent) => void;

/** Which kinds of watch a server's event ends. */
const KINDS: Readonly<Record<NodeEvent, readonly WatchKind[]>> = {
  created: ['data'],
  changed: ['data'],
  child: ['children'],
  deleted: ['data', 'children'],
};

/**
 * The watches of one session. ZooKeeper keeps one per path and kind and fires it once; here is the list
 * of who wants to know. An event for nobody is ignored.
 */
export class WatchRegistry {
  /** How many answers are awaited that set a watch, by kind and path. */
  readonly #asked = new Map<string, number>();

  /** Of those, the ones that nobody waits for unless the answer comes out well. */
  readonly #kept = new Set<string>();

  readonly #watches: Readonly<Record<WatchKind, Map<string, Set<Fire>>>> = {
    data: new Map(),
    children: new Map(),
  };

  /** @param unwanted told of a watch that nobody waits for any more: the server may forget it */
  constructor(private readonly unwanted: (kind: WatchKind, path: string) => void) {}

  /** Before a request that sets a watch. Returns what is to be called when it was answered. */
  ask(kind: WatchKind, path: string): () => void {
    const id = `${kind}:${path}`;
    this.#asked.set(id, (this.#asked.get(id) ?? 0) + 1);
    return () => {
      const left = this.#asked.get(id)! - 1;
      if (left > 0) return void this.#asked.set(id, left);
      this.#asked.delete(id);
      if (this.#kept.delete(id) && !this.#watches[kind].has(path)) this.unwanted(kind, path);
    };
  }

  /** Only once the answer that set the watch is there: an event before it belongs to an older watch. */
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
        const present = byPath.get(path);
        if (!present?.delete(fire) || present.size > 0) return;
        byPath.delete(path);
        // The server has one watch for all: one that is being set would be forgotten with this one.
        const id = `${kind}:${path}`;
        if (this.#asked.has(id)) this.#kept.add(id);
        else this.unwanted(kind, path);
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

  /** All watches are gone from the server, with whatever they would have told: their owners must look again. */
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
