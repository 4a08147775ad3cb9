import { type Acl, ErrorCode, Permission, type Stat, type Writer } from '../protocol/index.js';
import type { ServerProfile } from './profiles.js';

/** The refusal of a request. */
export class KeeperError extends Error {
  override readonly name = 'KeeperError';

  /** @param body writes the body of the reply, if it has one in spite of the error */
  constructor(
    readonly code: (typeof ErrorCode)[keyof typeof ErrorCode],
    readonly body?: (to: Writer) => void,
  ) {
    super(`ZooKeeper error ${code}`);
  }
}

export const OPEN_ACL: readonly Acl[] = [{ perms: Permission.all, scheme: 'world', id: 'anyone' }];
const READ_ACL: readonly Acl[] = [{ perms: Permission.read, scheme: 'world', id: 'anyone' }];

export type ZnodeKind = 'persistent' | 'ephemeral' | 'container' | 'ttl';

/** A znode as plain data: the tree is passed between threads by structured clone when the server stops. */
export interface Znode {
  readonly kind: ZnodeKind;
  data: Uint8Array | null;
  acl: readonly Acl[];
  /** Their names, without the path. */
  readonly children: Set<string>;
  /** The size of the hash table in which the real server has the children: it doubles with them, and never shrinks. */
  buckets: number;
  /** The session of an ephemeral node; otherwise 0. */
  readonly owner: bigint;
  /** Milliseconds after which an unchanged, childless node of kind `ttl` is reaped. */
  readonly ttl: number;
  readonly czxid: number;
  mzxid: number;
  pzxid: number;
  readonly ctime: number;
  mtime: number;
  version: number;
  /** The number of children ever created, from which sequence numbers are made. `cversion` counts deletions too. */
  created: number;
  /** The number of changes of the data of children. Only for a server whose `cversion` counts these; otherwise absent. */
  childWrites?: number;
  aversion: number;
}

export function newZnode(
  fields: Pick<Znode, 'kind' | 'data' | 'acl' | 'owner' | 'ttl'>,
  at: { zxid: number; time: number },
): Znode {
  return {
    ...fields,
    children: new Set(),
    buckets: 8,
    czxid: at.zxid,
    mzxid: at.zxid,
    pzxid: at.zxid,
    ctime: at.time,
    mtime: at.time,
    version: 0,
    created: 0,
    aversion: 0,
  };
}

export function statOf(node: Znode): Stat {
  const numChildren = node.children.size;
  return {
    czxid: node.czxid,
    mzxid: node.mzxid,
    ctime: node.ctime,
    mtime: node.mtime,
    version: node.version,
    // Creations plus deletions, in 32 bits as in the server's int.
    cversion: (node.created * 2 - numChildren + (node.childWrites ?? 0)) | 0,
    aversion: node.aversion,
    ephemeralOwner: node.owner,
    dataLength: node.data?.length ?? 0,
    numChildren,
    pzxid: node.pzxid,
  };
}

/**
 * Returns the names of the children in the order of the real server, a Java `HashSet`. It looks random, so that a client
 * that forgets to sort fails here too.
 */
export function listChildren({ children, buckets }: Znode): string[] {
  return [...children]
    .map((name) => ({ name, bucket: javaHash(name) & (buckets - 1) }))
    .sort((a, b) => a.bucket - b.bucket)
    .map(({ name }) => name);
}

/** Returns the hash of a string in Java's `HashMap`. */
function javaHash(text: string): number {
  let hash = 0;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash, 31) + text.charCodeAt(i);
  return hash ^ (hash >>> 16);
}

/** Returns the znodes that a server has from the start. */
export function initialNodes({ systemNodes }: ServerProfile): Map<string, Znode> {
  const never = { zxid: 0, time: 0 };
  const make = (data: string, acl: readonly Acl[]) =>
    newZnode({ kind: 'persistent', data: Buffer.from(data), acl, owner: 0n, ttl: 0 }, never);
  const root = make('', OPEN_ACL);
  const nodes = new Map([
    // As in the real server, the root has the empty path too.
    ['', root],
    ['/', root],
  ]);
  for (const [path, data] of systemNodes) {
    const isConfig = path === '/zookeeper/config';
    const node = make(data, isConfig ? READ_ACL : OPEN_ACL);
    if (isConfig) node.aversion = -1;
    nodes.set(path, node);
    nodes.get(parentOf(path))!.children.add(nameOf(path));
  }
  return nodes;
}

// ZooKeeper forbids control characters, surrogates, private use, and the specials at the end of the basic
// plane. Java sees every character beyond that plane as surrogates.
// oxlint-disable-next-line no-control-regex
const FORBIDDEN = /[\u0000-\u001f\u007f-\u009f\ud800-\uf8ff\ufff0-\uffff]/;
const RELATIVE_OR_EMPTY = /\/(?:\.{0,2})(?:\/|$)/;

/** @throws KeeperError for a path that ZooKeeper forbids */
export function validatePath(path: string): void {
  if (path === '/') return;
  if (path[0] !== '/' || FORBIDDEN.test(path) || RELATIVE_OR_EMPTY.test(path)) {
    throw new KeeperError(ErrorCode.badArguments);
  }
}

/** Returns the parent's path: for a child of the root, the empty string, under which the tree has the root too. */
export function parentOf(path: string): string {
  const slash = path.lastIndexOf('/');
  if (slash === -1 || path.includes('\0')) throw new KeeperError(ErrorCode.badArguments);
  return path.slice(0, slash);
}

export function nameOf(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}
