import {
  AddWatchRequest,
  CheckVersionRequest,
  type Codec,
  Create2Response,
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
  GetEphemeralsResponse,
  OpCode,
  PathRequest,
  PathResponse,
  ReadRequest,
  SetACLRequest,
  SetDataRequest,
  SetWatches,
  SetWatches2,
  StatResponse,
  type ValueOf,
  WatchesRequest,
  WhoAmIResponse,
} from '../protocol/index.js';
import { userOf } from './acl.js';
import type { Call, Operation } from './call.js';
import { create, createContainer, createTtl } from './creates.js';
import type { DataTree, Transaction } from './data-tree.js';
import { KeeperError } from './keeper-error.js';
import { multi, multiRead } from './multi.js';
import { addWatch, hasWatch, removeWatch, setWatches } from './requested-watches.js';

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

/** The requests that are answered from the tree. The connection handles the others. */
export const operations: ReadonlyMap<number, Operation> = new Map<number, Operation>([
  [OpCode.create, write(CreateRequest, PathResponse, create)],
  [OpCode.create2, write(CreateRequest, Create2Response, create)],
  [OpCode.createContainer, write(CreateRequest, Create2Response, createContainer)],
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
  // No client sends it outside a multi, where the real server never answers a check that succeeds.
  [
    OpCode.check,
    write(CheckVersionRequest, Empty, ({ tree, caller }, { path, version }) =>
      tree.check(path, version, caller),
    ),
  ],
  [OpCode.multi, { kind: 'write', run: multi }],
  [OpCode.multiRead, { kind: 'read', run: multiRead }],
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
  // A single server has seen every write that was answered.
  [OpCode.sync, read(PathRequest, PathResponse, (_call, { path }) => ({ path }))],
  [
    OpCode.setWatches,
    read(SetWatches, Empty, ({ tree, watcher }, known) => setWatches(tree, known, watcher)),
  ],
  [
    OpCode.setWatches2,
    read(SetWatches2, Empty, ({ tree, watcher }, known) => setWatches(tree, known, watcher)),
  ],
  [
    OpCode.addWatch,
    read(AddWatchRequest, ErrorResponse, ({ tree, watcher }, { path, mode }) => {
      addWatch(tree, path, mode, watcher);
      return { err: ErrorCode.ok };
    }),
  ],
  [
    OpCode.checkWatches,
    read(WatchesRequest, Empty, ({ tree }, { path, type }) => {
      if (!hasWatch(tree, path, type)) throw new KeeperError(ErrorCode.noWatcher);
    }),
  ],
  [
    OpCode.removeWatches,
    read(WatchesRequest, Empty, ({ tree, watcher }, { path, type }) => {
      if (!removeWatch(tree, path, type, watcher)) throw new KeeperError(ErrorCode.noWatcher);
    }),
  ],
  [
    OpCode.getEphemerals,
    read(PathRequest, GetEphemeralsResponse, ({ tree, caller }, { path }) => {
      const prefix = ['', '/'].includes(path.trim()) ? '' : path;
      const owned = tree.ephemeralsOf(caller.session);
      return { ephemerals: owned.filter((ephemeral) => ephemeral.startsWith(prefix)) };
    }),
  ],
  [
    OpCode.getAllChildrenNumber,
    read(PathRequest, GetAllChildrenNumberResponse, ({ tree, caller }, { path }) => ({
      totalNumber: tree.countBelow(path, caller),
    })),
  ],
  [
    OpCode.whoAmI,
    read(Empty, WhoAmIResponse, ({ caller }) => ({
      clientInfo: caller.identities.map((identity) => ({
        scheme: identity.scheme,
        user: userOf(identity),
      })),
    })),
  ],
  [OpCode.ping, read(Empty, Empty, () => undefined)],
]);

function children(
  { tree, caller, watcher }: Call,
  { path, watch }: ValueOf<typeof ReadRequest>,
): ReturnType<DataTree['getChildren']> {
  return tree.getChildren(path, caller, watch ? watcher : undefined);
}
