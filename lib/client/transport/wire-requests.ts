import {
  AddWatchMode,
  CreateFlag,
  ERROR_RESULT,
  ErrorCode,
  OpCode,
  Permission,
  WatcherType,
} from '../../protocol/codes.js';
import { ProtocolError, type Reader, type Writer } from '../../protocol/jute.js';
import { foreignText } from '../errors.js';
import type { Acl, Stat } from '../types.js';
import { NODE_NAME } from '../validation.js';
import {
  type MultiOutcome,
  permissionBits,
  type Reply,
  type Request,
  type RequestKind,
  type RequestOf,
} from './transport.js';

/** A request, or one that only the wire transport sends by itself. */
export type WireRequest =
  | Request
  | { readonly kind: 'sasl'; readonly token: Buffer; readonly path?: undefined }
  | { readonly kind: 'closeSession'; readonly path?: undefined };

/** A request with the receiver of its reply. */
export interface Call {
  readonly request: WireRequest;
  readonly reply: Reply<unknown>;
}

const SEQUENCE_NUMBER = /^-?\d+$/;

const OP_CODES: Readonly<Record<Exclude<RequestKind, 'create'> | 'sasl' | 'closeSession', number>> =
  {
    delete: OpCode.delete,
    exists: OpCode.exists,
    get: OpCode.getData,
    set: OpCode.setData,
    setAcl: OpCode.setACL,
    sync: OpCode.sync,
    children: OpCode.getChildren2,
    check: OpCode.check,
    multi: OpCode.multi,
    addWatch: OpCode.addWatch,
    removeWatch: OpCode.removeWatches,
    sasl: OpCode.sasl,
    closeSession: OpCode.closeSession,
  };

export function opCodeOf(request: WireRequest): number {
  if (request.kind !== 'create') return OP_CODES[request.kind];
  if (request.ttl !== undefined) return OpCode.createTTL;
  return request.flags === CreateFlag.container ? OpCode.createContainer : OpCode.create;
}

/** Writes the body of a request. */
export function writeBody(request: WireRequest, to: Writer): void {
  switch (request.kind) {
    case 'multi':
      return writeMulti(request.operations, to);
    case 'sasl':
      return to.bytes(request.token);
    case 'closeSession':
      return;
  }
  to.text(request.path);
  switch (request.kind) {
    case 'create':
      to.bytes(request.data);
      writeAcl(request.acl, to);
      to.int(request.flags);
      if (request.ttl !== undefined) to.long(request.ttl);
      return;
    case 'set':
      to.bytes(request.data);
      return to.int(request.version);
    case 'setAcl':
      writeAcl(request.acl, to);
      return to.int(request.version);
    case 'delete':
    case 'check':
      return to.int(request.version);
    case 'get':
    case 'exists':
    case 'children':
      return to.bool(request.watch ?? false);
    case 'addWatch':
      return to.int(request.recursive ? AddWatchMode.persistentRecursive : AddWatchMode.persistent);
    case 'removeWatch':
      return to.int(WatcherType[request.watches]);
  }
}

/** Reads the body of a reply without an error. */
export function readResult(request: WireRequest, from: Reader): unknown {
  switch (request.kind) {
    case 'create':
      return readCreated(request, from);
    case 'set':
    case 'exists':
      return readStat(from);
    case 'get':
      // A copy: a view would keep everything in memory that arrived with it.
      return { data: Buffer.from(from.bytes() ?? []), stat: readStat(from) };
    case 'children':
      return { children: from.vector(readName), stat: readStat(from) };
    case 'multi':
      return readMulti(request.operations, from);
    case 'sasl': {
      // A copy, because the token is used after other frames have arrived.
      const token = from.bytes();
      return token && Buffer.from(token);
    }
    default:
      return undefined;
  }
}

/** Reads the path of a created znode: that of the request, with a number behind it if the mode is sequential. */
function readCreated({ path, flags }: RequestOf<'create'>, from: Reader): string {
  const created = from.text();
  const isSequential = (flags & CreateFlag.sequential) !== 0;
  // The number is a signed integer, which becomes negative when it overflows.
  const isRight = isSequential
    ? created.startsWith(path) && SEQUENCE_NUMBER.test(created.slice(path.length))
    : created === path;
  if (!isRight) throw new ProtocolError(`the path ${foreignText(created)} of a created znode`);
  return created;
}

function readName(from: Reader): string {
  const name = from.text();
  if (!NODE_NAME.test(name)) throw new ProtocolError(`a child with the name ${foreignText(name)}`);
  return name;
}

/** Writes the body of a `multi`. */
export function writeMulti(operations: readonly Request[], to: Writer): void {
  for (const operation of operations) {
    writeMultiHeader(opCodeOf(operation), false, to);
    writeBody(operation, to);
  }
  writeMultiHeader(-1, true, to);
}

function writeMultiHeader(type: number, done: boolean, to: Writer): void {
  to.int(type);
  to.bool(done);
  to.int(-1);
}

/** Reads the reply to a `multi`. */
export function readMulti(operations: readonly Request[], from: Reader): MultiOutcome {
  const results: unknown[] = [];
  for (const [index, operation] of operations.entries()) {
    const { type, done, code } = readMultiHeader(from);
    if (done) break;
    if (type === ERROR_RESULT) {
      // The operations before the one that failed have the code 0: they were undone.
      if (code !== ErrorCode.ok) return { failed: index, code };
      from.int();
      continue;
    }
    if (type !== opCodeOf(operation) && type !== OpCode.create2) {
      throw new ProtocolError(`a result of type ${type} in a multi`);
    }
    results.push(readResult(operation, from));
    // The reply to the create of a container or of a znode with a TTL has a stat, but only in a multi.
    if (type === OpCode.create2) readStat(from);
  }
  // Without an operation that failed, each has a result.
  if (results.length < operations.length || !readMultiHeader(from).done) {
    throw new ProtocolError(
      `a multi of ${operations.length} operations with fewer or more results`,
    );
  }
  return { results };
}

function readMultiHeader(from: Reader): { type: number; done: boolean; code: number } {
  return { type: from.int(), done: from.bool(), code: from.int() };
}

const OPEN_ACL = [{ perms: Permission.all, scheme: 'world', id: 'anyone' }];

function toRecord({ scheme, id, permissions }: Acl) {
  return { perms: permissionBits(permissions), scheme, id };
}

/** @param acl default: open */
function writeAcl(acl: readonly Acl[] | undefined, to: Writer): void {
  to.int(acl?.length ?? 1);
  for (const { perms, scheme, id } of acl?.map(toRecord) ?? OPEN_ACL) {
    to.int(perms);
    to.text(scheme);
    to.text(id);
  }
}

function readStat(from: Reader): Stat {
  return {
    czxid: from.long(),
    mzxid: from.long(),
    ctime: from.long(),
    mtime: from.long(),
    version: from.int(),
    cversion: from.int(),
    aversion: from.int(),
    ephemeralOwner: readSessionId(from),
    dataLength: from.int(),
    numChildren: from.int(),
    pzxid: from.long(),
  };
}

/** Reads a 64-bit session id as hexadecimal digits without leading zeros. */
export function readSessionId(from: Reader): string {
  const high = from.int() >>> 0;
  const low = (from.int() >>> 0).toString(16);
  return high === 0 ? low : high.toString(16) + low.padStart(8, '0');
}
