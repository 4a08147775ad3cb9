import { BadOptionError } from './errors.js';
import type { MultiOperation } from './transport/transport.js';
import type { Acl, CreateMode, Stat } from './types.js';
import {
  checkCreateOptions,
  checkData,
  checkOptions,
  checkPath,
  checkVersion,
  isRecord,
  MAX_REQUEST,
  uncheckedRules,
  withChroot,
} from './validation.js';

/**
 * One operation of a transaction: the path and the options of the method of the same name. `check` fails the transaction
 * unless the znode exists and its data have the version. The default version -1 means any.
 *
 * @publicApi
 */
export type TransactionOperation =
  | {
      create: string;
      /** Default: empty. */
      data?: string | Uint8Array | undefined;
      /** Default `'persistent'`. */
      mode?: CreateMode | undefined;
      /** See {@link Session.create}. */
      ttl?: number | undefined;
    }
  | { set: string; data: string | Uint8Array; version?: number | undefined }
  | { delete: string; version?: number | undefined }
  | { check: string; version?: number | undefined };

/**
 * The results of a transaction, one for each operation: the path of a create, the stat of a set, and undefined for a
 * delete and a check.
 *
 * @publicApi
 */
export type TransactionResults<T extends readonly TransactionOperation[]> = {
  -readonly [I in keyof T]: T[I] extends { create: string }
    ? string
    : T[I] extends { set: string }
      ? Stat
      : T[I] extends { delete: string } | { check: string }
        ? undefined
        : string | Stat | undefined;
};

/** The options of each kind of operation, without its path. */
const OPTIONS = {
  create: ['data', 'mode', 'ttl'],
  set: ['data', 'version'],
  delete: ['version'],
  check: ['version'],
} as const;
type Kind = keyof typeof OPTIONS;
const KINDS = Object.keys(OPTIONS) as Kind[];

/** A generous bound of the bytes of an operation, or of an ACL entry, in addition to its strings and data. */
const OVERHEAD = 64;

/** Returns a bound of the bytes of an ACL in a request. */
export function bytesOfAcl(acl: readonly Acl[] = []): number {
  return acl.reduce((sum, { id }) => sum + OVERHEAD + Buffer.byteLength(id), 0);
}

/**
 * Checks the operations of a transaction.
 *
 * @param guards znodes that must exist. The transaction checks them before its operations
 * @throws BadOptionError
 */
export function checkTransaction(
  operations: readonly TransactionOperation[],
  guards: readonly string[],
  { chroot, acl }: { readonly chroot: string; readonly acl?: readonly Acl[] | undefined },
): MultiOperation[] {
  if (!Array.isArray(operations) || operations.length + guards.length === 0) {
    throw new BadOptionError('operations', operations, 'an array of at least one operation');
  }
  const checks = guards.map((path) => ({ check: path }));
  const checked = [...checks, ...operations].map((operation, index) =>
    checkOperation(chroot, acl, operation, `operations[${index - guards.length}]`),
  );
  const bytes = checked.reduce((sum, operation) => {
    const data = 'data' in operation ? operation.data.length : 0;
    const ofAcl = operation.kind === 'create' ? bytesOfAcl(acl) : 0;
    return sum + OVERHEAD + Buffer.byteLength(operation.path) + data + ofAcl;
  }, 0);
  if (bytes <= MAX_REQUEST) return checked;
  const message = `the operations of a transaction must have at most ${MAX_REQUEST} bytes together, but have ${bytes}`;
  throw new BadOptionError('operations', bytes, { message });
}

function checkOperation(
  chroot: string,
  acl: readonly Acl[] | undefined,
  operation: unknown,
  name: string,
): MultiOperation {
  const kinds = isRecord(operation) ? KINDS.filter((kind) => kind in operation) : [];
  const [kind] = kinds;
  if (!kind || kinds.length > 1) {
    const expected = `an object with one of ${KINDS.join(', ')}`;
    if (!isRecord(operation)) throw new BadOptionError(name, operation, expected);
    const message = `${name} must be ${expected}, but has ${Object.keys(operation).join(', ') || 'none'}`;
    throw new BadOptionError(name, operation, { message });
  }
  const given = operation as Record<string, unknown>;
  checkOptions(given, uncheckedRules(kind, ...OPTIONS[kind]), name);
  const path = withChroot(chroot, checkPath(given[kind], `${name}.${kind}`));
  if (kind === 'create') {
    const data = checkData(given.data, `${name}.data`);
    return { kind, path, data, ...checkCreateOptions(given, `${name}.`), acl };
  }
  // A null, such as that of a version that was not read, must not mean any version.
  const { version: expected = -1 } = given;
  const version = checkVersion(expected, `${name}.version`);
  if (kind !== 'set') return { kind, path, version };
  // A forgotten `data` must not empty the znode.
  if (given.data === undefined) {
    throw new BadOptionError(`${name}.data`, undefined, 'a string or a Uint8Array');
  }
  return { kind, path, data: checkData(given.data, `${name}.data`), version };
}
