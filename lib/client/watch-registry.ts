import type { NodeEvent } from './transport.js';
import type { Watch, WatchEvent } from './types.js';

type Kind = 'data' | 'children';
type Fire = (event: WatchEvent) => void;

/** Which kinds of watch a server's event ends. */
const KINDS: Readonly<Record<NodeEvent, readonly Kind[]>> = {
  created: ['data'],
  changed: ['data'],
  child: ['children'],
  deleted: ['data', 'children'],
};

/**
 * The watches of one session. ZooKeeper keeps one per path and kind, fires it once and, by this native
 * client, cannot be told to forget it: here is the list of who wants to know. An event for nobody is ignored.
 */
export class WatchRegistry {
  readonly #watches: Readonly<Record<Kind, Map<string, Set<Fire>>>> = {
    data: new Map(),
    children: new Map(),
  };

  /** Only once the answer that set the watch is there: an event before it belongs to an older watch. */
  add(kind: Kind, path: string): Watch {
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
        if (present?.delete(fire) && present.size === 0) byPath.delete(path);
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
