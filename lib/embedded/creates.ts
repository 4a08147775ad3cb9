import {
  CreateFlag,
  type CreateRequest,
  type CreateTTLRequest,
  ErrorCode,
  type ValueOf,
} from '../protocol/index.js';
import type { Call } from './call.js';
import type { Transaction } from './data-tree.js';
import { KeeperError } from './keeper-error.js';
import type { ZnodeKind } from './znode.js';

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
  return createWithoutTtl(call, request, kind, at);
}

export function createContainer(
  call: Call,
  request: ValueOf<typeof CreateRequest>,
  at: Transaction,
) {
  return createWithoutTtl(call, request, 'container', at);
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

export function createTtl(call: Call, request: ValueOf<typeof CreateTTLRequest>, at: Transaction) {
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
  // The request's bytes are a view of the socket's buffer: the tree needs a copy.
  const creation = { path, data: data && Buffer.from(data), acl, kind, sequential, ttl };
  return tree.create(creation, caller, at);
}
