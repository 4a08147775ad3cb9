import {
  AddWatchRequest,
  CheckVersionRequest,
  CheckWatchesRequest,
  type Codec,
  Create2Response,
  CreateFlag,
  CreateRequest,
  CreateTTLRequest,
  DeleteRequest,
  Empty,
  ErrorCode,
  ErrorResponse,
  GetACLResponse,
  GetAllChildrenNumberResponse,
  GetChildren2Response,
  GetChildrenResponse,
  GetDataResponse,
  GetEphemeralsRequest,
  GetEphemeralsResponse,
  OpCode,
  PathRequest,
  PathResponse,
  type Reader,
  ReadRequest,
  RemoveWatchesRequest,
  SetACLRequest,
  SetDataRequest,
  SetWatches,
  SetWatches2,
  StatResponse,
  Sync,
  type ValueOf,
  WhoAmIResponse,
  type Writer,
} from '../protocol/index.js';
import { userOf } from './acl.js';
import type { Caller, DataTree, Transaction } from './data-tree.js';
import { addWatch, hasWatch, removeWatch, setWatches, type Watcher } from './watches.js';
import { KeeperError, type ZnodeKind } from './znode.js';

/** The caller of an operation and the tree that it works on. */
export interface Call {
  readonly tree: DataTree;
  readonly caller: Caller;
  readonly watcher: Watcher;
}

/** Writes the body of a reply, after its header. */
export type Reply = (to: Writer) => void;

/** `parse` reads a request and returns the function that applies it. */
export type Operation =
  | { readonly kind: 'read'; parse(body: Reader): (call: Call) => Reply }
  | { readonly kind: 'write'; parse(body: Reader): (call: Call, at: Transaction) => Reply };

function read<Q, A>(
  request: Codec<Q>,
  response: Codec<A>,
  answer: (call: Call, request: Q) => A,
): Operation {
  return {
    kind: 'read',
    parse(body) {
      const value = request.read(body);
      return (call) => {
        const result = answer(call, value);
        return (to) => response.write(result, to);
      };
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
    parse(body) {
      const value = request.read(body);
      return (call, at) => {
        const result = apply(call, value, at);
        return (to) => response.write(result, to);
      };
    },
  };
}

function refused(code: KeeperError['code']): Operation {
  return write(Empty, Empty, () => {
    throw new KeeperError(code);
  });
}

/** Requests that only servers send. */
const CREATE_SESSION = -10;
const DELETE_CONTAINER = 20;

/** The requests for one operation that are answered from the tree, by their type. */
export const operations: Readonly<Record<number, Operation | undefined>> = {
  [OpCode.create]: write(CreateRequest, PathResponse, create),
  [OpCode.create2]: write(CreateRequest, Create2Response, create),
  [OpCode.createContainer]: write(CreateRequest, Create2Response, (call, request, at) =>
    createNode(call, request, 'container', at),
  ),
  [OpCode.createTTL]: write(CreateTTLRequest, Create2Response, (call, request, at) =>
    createNode(call, request, 'ttl', at),
  ),
  [OpCode.delete]: write(DeleteRequest, Empty, ({ tree, caller }, { path, version }, at) =>
    tree.delete(path, version, caller, at),
  ),
  [OpCode.setData]: write(SetDataRequest, StatResponse, ({ tree, caller }, request, at) => {
    const { path, data, version } = request;
    return { stat: tree.setData(path, data && Buffer.from(data), version, caller, at) };
  }),
  [OpCode.setACL]: write(SetACLRequest, StatResponse, ({ tree, caller }, request) => ({
    stat: tree.setAcl(request.path, request.acl, request.version, caller),
  })),
  // No client sends it outside a multi, where the real server never answers a check that succeeds.
  [OpCode.check]: write(CheckVersionRequest, Empty, ({ tree, caller }, { path, version }) =>
    tree.check(path, version, caller),
  ),
  [OpCode.reconfig]: refused(ErrorCode.reconfigDisabled),
  [CREATE_SESSION]: refused(ErrorCode.marshallingError),
  [DELETE_CONTAINER]: refused(ErrorCode.badArguments),
  [OpCode.exists]: read(ReadRequest, StatResponse, ({ tree, watcher }, { path, watch }) => ({
    stat: tree.exists(path, watch ? watcher : undefined),
  })),
  [OpCode.getData]: read(ReadRequest, GetDataResponse, ({ tree, caller, watcher }, request) =>
    tree.getData(request.path, caller, request.watch ? watcher : undefined),
  ),
  [OpCode.getChildren]: read(ReadRequest, GetChildrenResponse, getChildren),
  [OpCode.getChildren2]: read(ReadRequest, GetChildren2Response, getChildren),
  [OpCode.getACL]: read(PathRequest, GetACLResponse, ({ tree, caller }, { path }) =>
    tree.getAcl(path, caller),
  ),
  // A single server has seen every write that was answered.
  [OpCode.sync]: read(Sync, Sync, (_call, request) => request),
  [OpCode.setWatches]: read(SetWatches, Empty, ({ tree, watcher }, known) =>
    setWatches(tree, known, watcher),
  ),
  [OpCode.setWatches2]: read(SetWatches2, Empty, ({ tree, watcher }, known) =>
    setWatches(tree, known, watcher),
  ),
  [OpCode.addWatch]: read(AddWatchRequest, ErrorResponse, ({ tree, watcher }, { path, mode }) => {
    addWatch(tree, path, mode, watcher);
    return { err: ErrorCode.ok };
  }),
  [OpCode.checkWatches]: read(CheckWatchesRequest, Empty, ({ tree }, { path, type }) => {
    if (!hasWatch(tree, path, type)) throw new KeeperError(ErrorCode.noWatcher);
  }),
  [OpCode.removeWatches]: read(RemoveWatchesRequest, Empty, ({ tree, watcher }, { path, type }) => {
    if (!removeWatch(tree, path, type, watcher)) throw new KeeperError(ErrorCode.noWatcher);
  }),
  [OpCode.getEphemerals]: read(GetEphemeralsRequest, GetEphemeralsResponse, (call, request) => {
    const prefix = ['', '/'].includes(request.prefix.trim()) ? '' : request.prefix;
    const owned = [...(call.tree.ephemerals.get(call.caller.session) ?? [])];
    return { ephemerals: owned.filter((ephemeral) => ephemeral.startsWith(prefix)) };
  }),
  [OpCode.getAllChildrenNumber]: read(
    PathRequest,
    GetAllChildrenNumberResponse,
    ({ tree, caller }, { path }) => ({ totalNumber: tree.countBelow(path, caller) }),
  ),
  [OpCode.whoAmI]: read(Empty, WhoAmIResponse, ({ caller }) => ({
    clientInfo: caller.identities.map((identity) => ({
      scheme: identity.scheme,
      user: userOf(identity),
    })),
  })),
  [OpCode.ping]: read(Empty, Empty, () => undefined),
};

function getChildren(
  { tree, caller, watcher }: Call,
  { path, watch }: ValueOf<typeof ReadRequest>,
): ReturnType<DataTree['getChildren']> {
  return tree.getChildren(path, caller, watch ? watcher : undefined);
}

export const TTL_FLAGS: ReadonlySet<number> = new Set([CreateFlag.ttl, CreateFlag.ttlSequential]);
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

// As in the real server, the container flag creates a persistent node here: containers have their own opcode.
export function create(call: Call, request: ValueOf<typeof CreateRequest>, at: Transaction) {
  const kind = EPHEMERAL_FLAGS.has(request.flags) ? 'ephemeral' : 'persistent';
  return createNode(call, request, kind, at);
}

export function createNode(
  { tree, caller }: Call,
  request: ValueOf<typeof CreateRequest> & { readonly ttl?: number },
  kind: ZnodeKind,
  at: Transaction,
) {
  const { path, data, acl, flags, ttl = 0 } = request;
  const isValid =
    kind === 'ttl'
      ? TTL_FLAGS.has(flags) && ttl > 0 && ttl <= MAX_TTL
      : flags >= CreateFlag.persistent && flags <= CreateFlag.container;
  if (!isValid) throw new KeeperError(ErrorCode.badArguments);
  const sequential = SEQUENTIAL_FLAGS.has(flags);
  // The request's bytes are a view of the socket's buffer: the tree needs a copy.
  const creation = { path, data: data && Buffer.from(data), acl, kind, sequential, ttl };
  return tree.create(creation, caller, at);
}
