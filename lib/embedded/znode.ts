import type { Acl, Stat } from '../protocol/index.js';

export type ZnodeKind = 'persistent' | 'ephemeral' | 'container' | 'ttl';

/** Plain data: a tree of these survives a structured clone when the server stops. */
export interface Znode {
  readonly kind: ZnodeKind;
  data: Uint8Array | null;
  acl: readonly Acl[];
  /** Names, without the path. */
  readonly children: Set<string>;
  /** The session of an ephemeral node, else 0. */
  readonly owner: bigint;
  /** Milliseconds that a node of kind `ttl` may stay unchanged and childless. */
  readonly ttl: number;
  readonly czxid: number;
  mzxid: number;
  pzxid: number;
  readonly ctime: number;
  mtime: number;
  version: number;
  /** Children ever created: what sequence numbers count. The cversion that clients see counts deletions too. */
  created: number;
  aversion: number;
}

export function newZnode(
  fields: Pick<Znode, 'data' | 'acl'> & Partial<Pick<Znode, 'kind' | 'owner' | 'ttl'>>,
  at: { zxid: number; time: number },
): Znode {
  return {
    kind: fields.kind ?? 'persistent',
    data: fields.data,
    acl: fields.acl,
    children: new Set(),
    owner: fields.owner ?? 0n,
    ttl: fields.ttl ?? 0,
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
    // Every child that is gone was created once and deleted once; 32 bits, as in the server's int.
    cversion: (node.created * 2 - numChildren) | 0,
    aversion: node.aversion,
    ephemeralOwner: node.owner,
    dataLength: node.data?.length ?? 0,
    numChildren,
    pzxid: node.pzxid,
  };
}
