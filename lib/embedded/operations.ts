import {
  type Codec,
  Create2Response,
  CreateFlag,
  CreateRequest,
  CreateTTLRequest,
  DeleteRequest,
  Empty,
  ErrorCode,
  GetACLResponse,
  GetChildren2Response,
  GetChildrenResponse,
  GetDataResponse,
  OpCode,
  PathRequest,
  PathResponse,
  type Reader,
  ReadRequest,
  SetACLRequest,
  SetDataRequest,
  SetWatches,
  StatResponse,
  type ValueOf,
  type Writer,
} from '../protocol/index.js';
import type { Caller, DataTree, Transaction } from './data-tree.js';
import { KeeperError } from './keeper-error.js';
import type { Watcher } from './watches.js';
import type { ZnodeKind } from './znode.js';

export interface Call {
  readonly tree: DataTree;
  readonly caller: Caller;
  readonly watcher: Watcher;
}

/** Writes the reply's body, once the header may go before it. */
export type Reply = (to: Writer) => void;

export type Operation =
  | { readonly kind: 'read'; run(call: Call, body: Reader): Reply }
  | { readonly kind: 'write'; run(call: Call, body: Reader, at: Transaction): Reply };

function read<Q, A>(
  request: Codec<Q>,
  response: Codec<A>,
  answer: (call: Call, request: Q) => A,
): Operation {
  return {
    kind: 'read',
    run(call, body) {
      const value = answer(call, request.read(body));
      return (to) => response.write(value, to);
    },
  };
}

function write<Q, A>(
  request: Codec<Q>,
  response: Codec<A>,
  apply: (call: Call, request: Q, at: Transaction) => A,
): Operation {
  return {
    kind: 'write',
    run(call, body, at) {
      const value = apply(call, request.read(body), at);
      return (to) => response.write(value, to);
    },
  };
}

/** Every request that is answered with data of the tree; what else there is belongs to the connection. */
export const operations: ReadonlyMap<number, Operation> = new Map<number, Operation>([
  [OpCode.create, write(CreateRequest, PathResponse, create)],
  [OpCode.create2, write(CreateRequest, Create2Response, create)],
  [
    OpCode.createContainer,
    write(CreateRequest, Create2Response, (call, request, at) =>
      createWithoutTtl(call, request, 'container', at),
    ),
  ],
  [OpCode.createTTL, write(CreateTTLRequest, Create2Response, createTtl)],
  [
    OpCode.delete,
    write(DeleteRequest, Empty, ({ tree, caller }, { path, version }, at) =>
      tree.delete(path, version, caller, at),
    ),
  ],
  [
    OpCode.setData,
    write(SetDataRequest, StatResponse, ({ tree, caller }, { path, data, version }, at) => ({
      stat: tree.setData(path, data && Buffer.from(data), version, caller, at),
    })),
  ],
  [
    OpCode.setACL,
    write(SetACLRequest, StatResponse, ({ tree, caller }, { path, acl, version }) => ({
      stat: tree.setAcl(path, acl, version, caller),
    })),
  ],
  [
    OpCode.reconfig,
    write(Empty, Empty, () => {
      throw new KeeperError(ErrorCode.reconfigDisabled);
    }),
  ],
  [
    OpCode.exists,
    read(ReadRequest, StatResponse, ({ tree, watcher }, { path, watch }) => ({
      stat: tree.exists(path, watch ? watcher : undefined),
    })),
  ],
  [
    OpCode.getData,
    read(ReadRequest, GetDataResponse, ({ tree, caller, watcher }, { path, watch }) =>
      tree.getData(path, caller, watch ? watcher : undefined),
    ),
  ],
  [OpCode.getChildren, read(ReadRequest, GetChildrenResponse, children)],
  [OpCode.getChildren2, read(ReadRequest, GetChildren2Response, children)],
  [
    OpCode.getACL,
    read(PathRequest, GetACLResponse, ({ tree, caller }, { path }) => tree.getAcl(path, caller)),
  ],
  // One server: it has seen every write that was answered.
  [OpCode.sync, read(PathRequest, PathResponse, (_call, { path }) => ({ path }))],
  [
    OpCode.setWatches,
    read(SetWatches, Empty, ({ tree, watcher }, request) =>
      tree.setWatches(
        request.relativeZxid,
        { data: request.dataWatches, exist: request.existWatches, child: request.childWatches },
        watcher,
      ),
    ),
  ],
  [OpCode.ping, read(Empty, Empty, () => undefined)],
]);

const TTL_FLAGS: ReadonlySet<number> = new Set([CreateFlag.ttl, CreateFlag.ttlSequential]);
const EPHEMERAL_FLAGS: ReadonlySet<number> = new Set([
  CreateFlag.ephemeral,
  CreateFlag.ephemeralSequential,
]);
const SEQUENTIAL_FLAGS: ReadonlySet<number> = new Set([
  CreateFlag.sequential,
  CreateFlag.ephemeralSequential,
  CreateFlag.ttlSequential,
]);
const MAX_TTL = 0xff_ffff_ffff;

// The container flag makes a plain node here, on the real server too: containers have an opcode of their own.
function create(call: Call, request: ValueOf<typeof CreateRequest>, at: Transaction) {
  const kind = EPHEMERAL_FLAGS.has(request.flags) ? 'ephemeral' : 'persistent';
  return createWithoutTtl(call, request, kind, at);
}

function createWithoutTtl(
  call: Call,
  request: ValueOf<typeof CreateRequest>,
  kind: ZnodeKind,
  at: Transaction,
) {
  const { flags } = request;
  if (flags < CreateFlag.persistent || flags > CreateFlag.container) {
    throw new KeeperError(ErrorCode.badArguments);
  }
  return createNode(call, request, kind, 0, at);
}

function createTtl(call: Call, request: ValueOf<typeof CreateTTLRequest>, at: Transaction) {
  const { flags, ttl } = request;
  if (!TTL_FLAGS.has(flags) || ttl <= 0 || ttl > MAX_TTL) {
    throw new KeeperError(ErrorCode.badArguments);
  }
  return createNode(call, request, 'ttl', ttl, at);
}

function createNode(
  { tree, caller }: Call,
  { path, data, acl, flags }: ValueOf<typeof CreateRequest>,
  kind: ZnodeKind,
  ttl: number,
  at: Transaction,
) {
  const sequential = SEQUENTIAL_FLAGS.has(flags);
  // The request's bytes are a view of what the socket read: the tree keeps its own copy.
  const creation = { path, data: data && Buffer.from(data), acl, kind, sequential, ttl };
  return tree.create(creation, caller, at);
}

function children(
  { tree, caller, watcher }: Call,
  { path, watch }: ValueOf<typeof ReadRequest>,
): ReturnType<DataTree['getChildren']> {
  return tree.getChildren(path, caller, watch ? watcher : undefined);
}
