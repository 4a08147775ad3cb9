import {
  type Acl,
  type AclEntry,
  ErrorCode,
  EventType,
  Permission,
  type Stat,
} from '../protocol/index.js';
import { type Identity, isAllowed, resolveAcl, withoutHashes } from './acl.js';
import type { ServerProfile } from './profiles.js';
import { type Watcher, Watches } from './watches.js';
import {
  initialNodes,
  KeeperError,
  listChildren,
  nameOf,
  newZnode,
  parentOf,
  statOf,
  validatePath,
  type Znode,
  type ZnodeKind,
} from './znode.js';

/** The zxid and the time that a write gives to everything it changes. */
export interface Transaction {
  readonly zxid: number;
  readonly time: number;
}

export interface Caller {
  readonly session: bigint;
  readonly identities: readonly Identity[];
}

interface Creation {
  readonly path: string;
  readonly data: Uint8Array | null;
  readonly acl: readonly AclEntry[];
  readonly kind: ZnodeKind;
  readonly sequential: boolean;
  /** Milliseconds, for a node of kind `ttl`. */
  readonly ttl: number;
}

/** ZooKeeper's counter of a parent is a Java int that stops at its maximum. */
const LAST_SEQUENCE = 0x7fff_ffff;

/** ZooKeeper's data tree and its rules. It knows no sockets and no clock, and sessions only by their ids. */
export class DataTree {
  readonly dataWatches = new Watches();
  readonly childWatches = new Watches();
  /** The paths of ephemeral nodes by their sessions. */
  readonly ephemerals = new Map<bigint, Set<string>>();
  /** Containers and TTL nodes. */
  readonly #reapable = new Set<string>();
  /** How to undo the changes of the multi that is being applied, and the watches to fire when it succeeds. */
  #multi: { readonly undo: (() => void)[]; readonly fire: (() => void)[] } | undefined;

  constructor(
    readonly profile: ServerProfile,
    readonly nodes: Map<string, Znode> = initialNodes(profile),
  ) {
    for (const [path, node] of nodes) this.#index(path, node);
  }

  create(creation: Creation, caller: Caller, at: Transaction): { path: string; stat: Stat } {
    const parentPath = parentOf(creation.path);
    const acl = resolveAcl(creation.acl, caller.identities, this.profile);
    const parent = this.#node(parentPath);
    authorize(parent, Permission.create, caller);
    const path = creation.sequential
      ? creation.path + String(parent.created).padStart(10, '0')
      : creation.path;
    validatePath(path);
    if (this.nodes.has(path)) throw new KeeperError(ErrorCode.nodeExists);
    if (parent.kind === 'ephemeral') throw new KeeperError(ErrorCode.noChildrenForEphemerals);

    const { kind, data, ttl } = creation;
    const owner = kind === 'ephemeral' ? caller.session : 0n;
    const node = newZnode({ kind, data, acl, owner, ttl }, at);
    const { created, pzxid, buckets } = parent;
    this.#insert(path, node, parent);
    this.#multi?.undo.push(() => {
      this.#detach(path, node, parent);
      Object.assign(parent, { created, pzxid, buckets });
    });
    if (created < LAST_SEQUENCE) {
      parent.created++;
      parent.pzxid = at.zxid;
    }
    this.#fire(() => {
      const watched = this.profile.notifiesRequestedPath ? creation.path : path;
      this.dataWatches.trigger(watched, EventType.created, acl);
      this.childWatches.trigger(parentPath || '/', EventType.childrenChanged, parent.acl);
    });
    return { path, stat: statOf(node) };
  }

  delete(path: string, version: number, caller: Caller, at: Transaction): void {
    const parentPath = parentOf(path);
    if (path === '/' || this.profile.systemNodes.has(path))
      throw new KeeperError(ErrorCode.badArguments);
    authorize(this.#node(parentPath), Permission.delete, caller);
    const node = this.#node(path);
    expectVersion(node.version, version);
    if (node.children.size > 0) throw new KeeperError(ErrorCode.notEmpty);
    this.#remove(path, node, at);
  }

  setData(
    path: string,
    data: Uint8Array | null,
    version: number,
    caller: Caller,
    at: Transaction,
  ): Stat {
    validatePath(path);
    const node = this.#node(path);
    authorize(node, Permission.write, caller);
    expectVersion(node.version, version);
    const { data: oldData, version: oldVersion, mzxid, mtime } = node;
    this.#multi?.undo.push(() => {
      Object.assign(node, { data: oldData, version: oldVersion, mzxid, mtime });
    });
    if (this.profile.raisesCversionOnSetData && path !== '/') {
      const parent = this.#node(parentOf(path));
      const { childWrites = 0 } = parent;
      parent.childWrites = childWrites + 1;
      this.#multi?.undo.push(() => void (parent.childWrites = childWrites));
    }
    node.data = data;
    node.version = (node.version + 1) | 0;
    node.mzxid = at.zxid;
    node.mtime = at.time;
    this.#fire(() => this.dataWatches.trigger(path, EventType.dataChanged, node.acl));
    return statOf(node);
  }

  /** Checks a version, as a condition of a multi. Changes nothing. */
  check(path: string, version: number, caller: Caller): void {
    validatePath(path);
    const node = this.#node(path);
    authorize(node, Permission.read, caller);
    expectVersion(node.version, version);
  }

  /** Applies all changes of `work`, or none if it throws. Watches fire after all changes. */
  atomically(work: () => void): void {
    const changes = { undo: [] as (() => void)[], fire: [] as (() => void)[] };
    this.#multi = changes;
    try {
      work();
    } catch (error) {
      for (const undo of changes.undo.toReversed()) undo();
      throw error;
    } finally {
      this.#multi = undefined;
    }
    for (const fire of changes.fire) fire();
  }

  setAcl(path: string, acl: readonly AclEntry[], version: number, caller: Caller): Stat {
    validatePath(path);
    const resolved = resolveAcl(acl, caller.identities, this.profile);
    const node = this.#node(path);
    authorize(node, Permission.admin, caller);
    expectVersion(node.aversion, version);
    node.acl = resolved;
    node.aversion = (node.aversion + 1) | 0;
    return statOf(node);
  }

  exists(path: string, watcher?: Watcher): Stat {
    if (path.includes('\0')) throw new KeeperError(ErrorCode.badArguments);
    if (watcher) this.dataWatches.add(path, watcher);
    return statOf(this.#node(path));
  }

  getData(path: string, caller: Caller, watcher?: Watcher) {
    const node = this.#node(path);
    authorize(node, Permission.read, caller);
    if (watcher) this.dataWatches.add(path, watcher);
    return { data: node.data, stat: statOf(node) };
  }

  getChildren(path: string, caller: Caller, watcher?: Watcher) {
    const node = this.#node(path);
    authorize(node, Permission.read, caller);
    if (watcher) this.childWatches.add(path, watcher);
    return { children: listChildren(node), stat: statOf(node) };
  }

  getAcl(path: string, caller: Caller): { acl: readonly Acl[]; stat: Stat } {
    const node = this.#node(path);
    authorize(node, Permission.read | Permission.admin, caller);
    const seesHashes =
      !this.profile.hidesHashes || isAllowed(node.acl, Permission.admin, caller.identities);
    return { acl: seesHashes ? node.acl : withoutHashes(node.acl), stat: statOf(node) };
  }

  /** Returns the number of descendants of a node. */
  countBelow(path: string, caller: Caller): number {
    authorize(this.#node(path), Permission.read, caller);
    // The root has two entries, and is not its own descendant.
    if (path === '/') return this.nodes.size - 2;
    let count = 0;
    for (const other of this.nodes.keys()) if (other.startsWith(`${path}/`)) count++;
    return count;
  }

  forgetWatcher(watcher: Watcher): void {
    this.dataWatches.forget(watcher);
    this.childWatches.forget(watcher);
  }

  removeEphemerals(session: bigint, at: Transaction): void {
    for (const path of this.ephemerals.get(session) ?? []) {
      this.#remove(path, this.#node(path), at);
    }
  }

  /** Returns the containers that have lost all their children, and the expired TTL nodes. */
  expiredPaths(now: number): string[] {
    return [...this.#reapable].filter((path) => {
      const node = this.#node(path);
      if (node.children.size > 0) return false;
      return node.kind === 'container' ? node.created > 0 : now - node.mtime > node.ttl;
    });
  }

  reap(path: string, at: Transaction): void {
    this.#remove(path, this.#node(path), at);
  }

  #node(path: string): Znode {
    const node = this.nodes.get(path);
    if (!node) throw new KeeperError(ErrorCode.noNode);
    return node;
  }

  #remove(path: string, node: Znode, at: Transaction): void {
    const parentPath = parentOf(path);
    const parent = this.#node(parentPath);
    const { pzxid } = parent;
    this.#detach(path, node, parent);
    this.#multi?.undo.push(() => {
      this.#insert(path, node, parent);
      parent.pzxid = pzxid;
    });
    if (this.profile.raisesPzxidOnDelete) parent.pzxid = at.zxid;
    this.#fire(() => {
      const notified = this.dataWatches.trigger(path, EventType.deleted, node.acl);
      const except = this.profile.mergesDeletedEvents ? notified : undefined;
      this.childWatches.trigger(path, EventType.deleted, node.acl, except);
      this.childWatches.trigger(parentPath || '/', EventType.childrenChanged, parent.acl);
    });
  }

  #insert(path: string, node: Znode, parent: Znode): void {
    parent.children.add(nameOf(path));
    if (parent.children.size > parent.buckets * 0.75) parent.buckets *= 2;
    this.nodes.set(path, node);
    this.#index(path, node);
  }

  #detach(path: string, node: Znode, parent: Znode): void {
    parent.children.delete(nameOf(path));
    this.nodes.delete(path);
    this.#reapable.delete(path);
    const owned = this.ephemerals.get(node.owner);
    if (owned?.delete(path) && owned.size === 0) this.ephemerals.delete(node.owner);
  }

  #index(path: string, node: Znode): void {
    if (node.kind === 'ephemeral') {
      const owned = this.ephemerals.get(node.owner);
      if (owned) owned.add(path);
      else this.ephemerals.set(node.owner, new Set([path]));
    } else if (node.kind !== 'persistent') {
      this.#reapable.add(path);
    }
  }

  #fire(watches: () => void): void {
    if (this.#multi) this.#multi.fire.push(watches);
    else watches();
  }
}

function authorize(node: Znode, permission: number, caller: Caller): void {
  if (!isAllowed(node.acl, permission, caller.identities)) {
    throw new KeeperError(ErrorCode.noAuth);
  }
}

function expectVersion(actual: number, expected: number): void {
  if (expected !== -1 && expected !== actual) throw new KeeperError(ErrorCode.badVersion);
}
