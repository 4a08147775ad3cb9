import { parentOf } from '../paths.js';
import {
  type Acl as AclRecord,
  CreateFlag,
  OpCode,
  Permission,
  type Reader,
  type Writer,
} from '../../protocol/index.js';
import type { Acl } from '../types.js';
import { type MultiOperation, permissionBits } from './transport.js';
import { readMulti, type WireRequest, writeMulti } from './wire-group.js';
import { readStat } from './wire-replies.js';

/** A request without the receiver of its reply. */
type Body = Omit<WireRequest, 'reply'>;

const OPEN_ACL: readonly AclRecord[] = [{ perms: Permission.all, scheme: 'world', id: 'anyone' }];

/**
 * @param ttl milliseconds; only with the flags of a znode with a TTL
 * @param acl default: open
 */
export function createRequest(
  path: string,
  data: Buffer,
  flags: number,
  ttl: number | undefined,
  acl: readonly Acl[] | undefined,
): Body {
  return {
    type: createType(flags, ttl),
    write: (to) => {
      to.text(path);
      to.bytes(data);
      writeAcl(acl, to);
      to.int(flags);
      if (ttl !== undefined) to.long(ttl);
    },
    read: (from) => from.text(),
    path,
    bytes: data.length,
  };
}

export function setRequest(path: string, data: Buffer, version: number): Body {
  const write = (to: Writer) => {
    to.text(path);
    to.bytes(data);
    to.int(version);
  };
  return { type: OpCode.setData, write, read: readStat, path };
}

/** A request that reads a node and may set a watch on it. */
export function readRequest(
  type: number,
  path: string,
  watch: boolean,
  read: (from: Reader) => unknown,
): Body {
  const write = (to: Writer) => {
    to.text(path);
    to.bool(watch);
  };
  return { type, write, read, path };
}

/** A delete, or the check of a transaction. */
export function versionRequest(type: number, path: string, version: number): Body {
  const write = (to: Writer) => {
    to.text(path);
    to.int(version);
  };
  return { type, write, read: undefined, path };
}

export function saslRequest(token: Buffer): Body {
  return {
    type: OpCode.sasl,
    write: (to) => to.bytes(token),
    // A copy, because the token is used after other frames have arrived.
    read: (from) => {
      const answer = from.bytes();
      return answer && Buffer.from(answer);
    },
  };
}

/** @param acl of the znodes that it creates; default: open */
export function multiRequest(
  operations: readonly MultiOperation[],
  acl: readonly Acl[] | undefined,
): Body {
  const bodies = operations.map((operation) => bodyOf(operation, acl));
  return {
    type: OpCode.multi,
    write: (to) => writeMulti(bodies, to),
    read: (from: Reader) => readMulti(bodies, from),
    paths: operations.flatMap(({ path }) => [path, parentOf(path)]),
  };
}

export function writeAcl(acl: readonly Acl[] | undefined, to: Writer): void {
  to.vector(acl?.map(toRecord) ?? OPEN_ACL, ({ perms, scheme, id }) => {
    to.int(perms);
    to.text(scheme);
    to.text(id);
  });
}

function toRecord({ scheme, id, permissions }: Acl): AclRecord {
  return { perms: permissionBits(permissions), scheme, id };
}

function createType(flags: number, ttl: number | undefined): number {
  if (ttl !== undefined) return OpCode.createTTL;
  return flags === CreateFlag.container ? OpCode.createContainer : OpCode.create;
}

function bodyOf(operation: MultiOperation, acl: readonly Acl[] | undefined): Body {
  const { path } = operation;
  switch (operation.kind) {
    case 'create':
      return createRequest(path, operation.data, operation.flags, operation.ttl, acl);
    case 'set':
      return setRequest(path, operation.data, operation.version);
    default:
      return versionRequest(OpCode[operation.kind], path, operation.version);
  }
}
