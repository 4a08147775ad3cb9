import { Listeners, parentOf, type Stat } from '../../../client/index.js';

/**
 * A znode in a {@link ZkCache}. Curator's ChildData.
 *
 * @publicApi
 */
export interface CachedNode {
  /** Absolute, as in the operations of the client. */
  readonly path: string;
  /** Shared by all readers of the cache: do not change its bytes. */
  readonly data: Buffer;
  /** As of the first read after the last change of the data. Later changes of the children or the ACL do not show in it. */
  readonly stat: Stat;
}

/**
 * A change of a znode in a {@link ZkCache}. A znode that was deleted and created again has both events. Counterpart of
 * the arguments of Curator's CuratorCacheListener.
 *
 * @publicApi
 */
export type CacheEvent =
  | { readonly type: 'created'; readonly path: string; readonly node: CachedNode }
  | {
      readonly type: 'changed';
      readonly path: string;
      readonly node: CachedNode;
      readonly old: CachedNode;
    }
  | { readonly type: 'deleted'; readonly path: string; readonly old: CachedNode };

/** The znodes of a {@link ZkCache}. Each change emits an event after it. */
export class CacheCopy {
  readonly changes = new Listeners<CacheEvent>();
  private readonly nodes = new Map<string, CachedNode>();
  /** The names of the children, by path of the parent. */
  private readonly names = new Map<string, Set<string>>();

  get size(): number {
    return this.nodes.size;
  }

  get(path: string): CachedNode | undefined {
    return this.nodes.get(path);
  }

  children(path: string): string[] {
    return [...(this.names.get(path) ?? [])];
  }

  entries(): IterableIterator<CachedNode> {
    return this.nodes.values();
  }

  /** Adds or replaces the copy of a znode. Returns true if the copy did not have this znode, by its `czxid`. */
  put(node: CachedNode): boolean {
    const { path, stat } = node;
    if (this.nodes.get(path)?.stat.czxid !== stat.czxid) this.delete(path);
    const old = this.nodes.get(path);
    if (old?.stat.mzxid === stat.mzxid) return false;
    this.nodes.set(path, node);
    if (!old) {
      const { parent, name } = split(path);
      const siblings = this.names.get(parent);
      if (siblings) siblings.add(name);
      else this.names.set(parent, new Set([name]));
      this.changes.emit({ type: 'created', path, node });
    } else {
      this.changes.emit({ type: 'changed', path, node, old });
    }
    return !old;
  }

  delete(path: string): void {
    const old = this.nodes.get(path);
    if (!old) return;
    this.nodes.delete(path);
    const { parent, name } = split(path);
    const siblings = this.names.get(parent);
    siblings?.delete(name);
    if (siblings?.size === 0) this.names.delete(parent);
    this.changes.emit({ type: 'deleted', path, old });
  }
}

function split(path: string): { parent: string; name: string } {
  return { parent: parentOf(path), name: path.slice(path.lastIndexOf('/') + 1) };
}
