import { createHash } from 'node:crypto';
import { type Acl, ErrorCode, KeeperError, Permission } from '../protocol/index.js';

/** An identity of a connection: its address, or a digest that it has authenticated with. */
export interface Identity {
  readonly scheme: string;
  readonly id: string;
}

export const OPEN_ACL: readonly Acl[] = [{ perms: Permission.all, scheme: 'world', id: 'anyone' }];
export const READ_ACL: readonly Acl[] = [{ perms: Permission.read, scheme: 'world', id: 'anyone' }];

/** Returns the identity of `user:password`, as ACLs name it. */
export function digestIdentity(credentials: Uint8Array): Identity {
  const text = Buffer.from(credentials).toString();
  const hash = createHash('sha1').update(text).digest('base64');
  return { scheme: 'digest', id: `${text.split(':', 1)[0]}:${hash}` };
}

/** Returns the public part of an identity. */
export function userOf({ scheme, id }: Identity): string {
  return scheme === 'digest' ? id.split(':', 1)[0] : id;
}

/** Returns an ACL as it is stored: checked, without duplicates, and with the caller's identities for `auth`. */
export function resolveAcl(acl: readonly Acl[], caller: readonly Identity[]): Acl[] {
  const resolved: Acl[] = [];
  for (const entry of withoutDuplicates(acl)) {
    if (entry.scheme === 'auth') {
      const proved = caller.filter(({ scheme }) => scheme === 'digest');
      if (proved.length === 0) throw new KeeperError(ErrorCode.invalidAcl);
      resolved.push(...proved.map((identity) => ({ perms: entry.perms, ...identity })));
    } else if (isValid(entry)) {
      resolved.push(entry);
    } else {
      throw new KeeperError(ErrorCode.invalidAcl);
    }
  }
  if (resolved.length === 0) throw new KeeperError(ErrorCode.invalidAcl);
  return resolved;
}

/** Returns whether the caller has any of `permissions`. */
export function isAllowed(
  acl: readonly Acl[],
  permissions: number,
  caller: readonly Identity[],
): boolean {
  return acl.some(
    (entry) =>
      (entry.perms & permissions) !== 0 &&
      (entry.scheme === 'world' || caller.some((identity) => matches(identity, entry))),
  );
}

/** Returns the ACL for a reader without admin permission, who may see the users but not their hashes. */
export function withoutHashes(acl: readonly Acl[]): Acl[] {
  return acl.map((entry) =>
    entry.scheme === 'digest' ? { ...entry, id: entry.id.replace(/:.*/, ':x') } : entry,
  );
}

// A frame holds up to 87,000 entries: comparing all pairs would block the server for seconds.
function withoutDuplicates(acl: readonly Acl[]): Iterable<Acl> {
  return new Map(acl.map((entry) => [JSON.stringify(entry), entry])).values();
}

function isValid({ scheme, id }: Acl): boolean {
  switch (scheme) {
    case 'world':
      return id === 'anyone';
    case 'digest':
      // Java's split: trailing empty parts do not count.
      return /^[^:]*:[^:]+:*$/.test(id);
    case 'ip':
      return parseNetwork(id) !== undefined;
    default:
      return false;
  }
}

function matches(identity: Identity, entry: Acl): boolean {
  if (identity.scheme !== entry.scheme) return false;
  if (entry.scheme !== 'ip') return identity.id === entry.id;
  const network = parseNetwork(entry.id);
  const address = parseNetwork(identity.id);
  if (!network || !address) return false;
  const ignored = 32 - network.bits;
  return ignored === 32 || network.address >>> ignored === address.address >>> ignored;
}

// IPv4 only, as in the real server.
function parseNetwork(id: string): { address: number; bits: number } | undefined {
  const parts = /^(\d+)\.(\d+)\.(\d+)\.(\d+)(?:\/(\d+))?$/.exec(id);
  if (!parts) return undefined;
  const octets = parts.slice(1, 5).map(Number);
  const bits = Number(parts[5] ?? 32);
  if (octets.some((octet) => octet > 255) || bits > 32) return undefined;
  return { address: octets.reduce((sum, octet) => sum * 256 + octet, 0), bits };
}
