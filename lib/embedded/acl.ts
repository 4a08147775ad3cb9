import { createHash } from 'node:crypto';
import { type Acl, type AclEntry, ErrorCode, ProtocolError } from '../protocol/index.js';
import type { ServerProfile } from './profiles.js';
import { KeeperError, OPEN_ACL } from './znode.js';

/** An identity of a connection: its address, or a digest that it has authenticated with. */
export interface Identity {
  readonly scheme: string;
  readonly id: string;
}

/** The identity that every ACL admits. */
export const SUPER: Identity = { scheme: 'super', id: '' };

const ONE_COLON = /^[^:]*:[^:]*$/;

/** Adds the identities that the credentials prove. Returns false if they are of no scheme that clients can use. */
export function authenticate(
  identities: Identity[],
  scheme: string | null,
  credentials: Uint8Array | null,
  { hasKeeperAcls }: ServerProfile,
  superDigest = '',
): boolean {
  if (scheme === 'ip') return !hasKeeperAcls;
  if (scheme !== 'digest' || !credentials) return false;
  if (hasKeeperAcls && !ONE_COLON.test(Buffer.from(credentials).toString())) return false;
  const proved = digestIdentity(credentials);
  if (!identities.some(({ id }) => id === proved.id)) identities.push(proved);
  if (proved.id === superDigest && !identities.includes(SUPER)) identities.push(SUPER);
  return true;
}

/** Returns the identity of `user:password`, as ACLs name it. */
function digestIdentity(credentials: Uint8Array): Identity {
  const text = Buffer.from(credentials).toString();
  const hash = createHash('sha1').update(text).digest('base64');
  return { scheme: 'digest', id: `${text.split(':', 1)[0]}:${hash}` };
}

/** Returns the public part of an identity. */
export function userOf({ scheme, id }: Identity): string {
  return scheme === 'digest' ? id.split(':', 1)[0] : id;
}

/** Returns an ACL as it is stored: checked, without duplicates, and with the caller's identities for `auth`. */
export function resolveAcl(
  acl: readonly AclEntry[],
  caller: readonly Identity[],
  { hasKeeperAcls }: ServerProfile,
): readonly Acl[] {
  if (hasKeeperAcls && acl.length === 0) return OPEN_ACL;
  const resolved: Acl[] = [];
  for (const entry of withoutDuplicates(acl)) {
    if (entry.scheme === 'auth') {
      const proved = caller.filter(({ scheme }) => scheme === 'digest');
      if (proved.length === 0 && !hasKeeperAcls) throw new KeeperError(ErrorCode.invalidAcl);
      resolved.push(...proved.map((identity) => ({ perms: entry.perms, ...identity })));
    } else if (isValid(entry, hasKeeperAcls)) {
      resolved.push(entry);
    } else if (!hasKeeperAcls || entry.scheme === 'digest') {
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
  const admits = (entry: Acl) =>
    (entry.perms & permissions) !== 0 &&
    (entry.scheme === 'world' || caller.some((identity) => matches(identity, entry)));
  return acl.some(admits) || caller.some(({ scheme }) => scheme === SUPER.scheme);
}

/** Returns the ACL for a reader without admin permission, who may see the users but not their hashes. */
export function withoutHashes(acl: readonly Acl[]): Acl[] {
  return acl.map((entry) =>
    entry.scheme === 'digest' ? { ...entry, id: entry.id.replace(/:.*/, ':x') } : entry,
  );
}

// A frame holds up to 87,000 entries: comparing all pairs would block the server for seconds.
function withoutDuplicates(acl: readonly AclEntry[]): Iterable<AclEntry> {
  refuseComparedNulls(acl);
  return new Map(acl.map((entry) => [JSON.stringify(entry), entry])).values();
}

/** The real server fails to compare an entry that has a null with an earlier one. */
function refuseComparedNulls(acl: readonly AclEntry[]): void {
  const earlier = new Set<string>();
  for (const { perms, scheme, id } of acl) {
    const isCompared = earlier.has(scheme === null ? `${perms}` : `${perms} ${scheme}`);
    if (isCompared && (scheme === null || id === null)) throw new ProtocolError('a null in an ACL');
    earlier.add(`${perms}`).add(`${perms} ${scheme}`);
  }
}

function isValid(entry: AclEntry, hasKeeperAcls: boolean): entry is Acl {
  const { scheme, id } = entry;
  if (hasKeeperAcls && scheme === 'ip') return false;
  if (scheme !== 'world' && scheme !== 'digest' && scheme !== 'ip') return false;
  if (id === null) throw new ProtocolError(`a null id of the scheme ${scheme}`);
  if (scheme === 'world') return id === 'anyone';
  if (scheme === 'ip') return parseNetwork(id) !== undefined;
  // Java's split: trailing empty parts do not count.
  return (hasKeeperAcls ? ONE_COLON : /^[^:]*:[^:]+:*$/).test(id);
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
