import { isIP } from 'node:net';
import { BadOptionError } from './errors.js';
import { uncheckedRules } from './option-rules.js';
import type { Acl, Auth } from './types.js';
import { checkOptions, isRecord, withheld } from './validation.js';

const ACL_RULES = uncheckedRules<keyof Acl>('scheme', 'id', 'permissions');
const AUTH_RULES = uncheckedRules<keyof Auth>('scheme', 'user', 'password');

export function checkAcl(acl: unknown, option = 'acl'): Acl[] {
  if (!Array.isArray(acl) || acl.length === 0) {
    throw new BadOptionError(option, withheld(acl), 'an array of at least one ACL entry');
  }
  return acl.map((entry: unknown, index) => checkAclEntry(entry, `${option}[${index}]`));
}

function checkAclEntry(entry: unknown, option: string): Acl {
  if (!isRecord(entry)) {
    throw new BadOptionError(option, withheld(entry), 'an ACL entry { scheme, id, permissions }');
  }
  checkOptions(entry, ACL_RULES, option);
  const { scheme, id, permissions } = entry;
  const refuse = refusalOf(entry, option);
  if (
    typeof permissions !== 'string' ||
    !/^[rwcda]{1,5}$/.test(permissions) ||
    new Set(permissions).size !== permissions.length
  ) {
    throw refuse('permissions', "some of the letters 'rwcda'");
  }
  switch (scheme) {
    case 'world':
      if (id === 'anyone') return { scheme, id, permissions };
      throw refuse('id', "'anyone' for the scheme world");
    case 'auth':
      if (id === '') return { scheme, id, permissions };
      throw refuse('id', 'empty for the scheme auth');
    case 'digest':
      if (typeof id === 'string' && /^[^:\0]+:[A-Za-z0-9+/]{27}=$/.test(id)) {
        return { scheme, id, permissions };
      }
      throw refuse('id', "'user:' and the base64 of sha1('user:password')");
    case 'sasl':
      if (typeof id === 'string' && /^[^\0]+$/.test(id)) return { scheme, id, permissions };
      throw refuse('id', 'the name of a user or a Kerberos principal');
    case 'ip':
      if (typeof id === 'string' && isNetwork(id)) return { scheme, id, permissions };
      throw refuse('id', 'an IP address, with /bits for a network');
    default:
      throw refuse('scheme', "'world', 'auth', 'digest', 'sasl' or 'ip'");
  }
}

export function checkAuth(auth: unknown, option = 'auth'): Auth[] {
  if (!Array.isArray(auth)) {
    throw new BadOptionError(option, withheld(auth), 'an array of credentials');
  }
  return auth.map((entry: unknown, index) => {
    const at = `${option}[${index}]`;
    if (!isRecord(entry)) {
      const expected = "credentials { scheme: 'digest', user, password }";
      throw new BadOptionError(at, withheld(entry), expected);
    }
    checkOptions(entry, AUTH_RULES, at);
    const { scheme, user, password } = entry;
    const refuse = refusalOf(entry, at);
    if (scheme !== 'digest') throw refuse('scheme', "'digest'");
    if (typeof user !== 'string' || !/^[^:\0]+$/.test(user)) {
      throw refuse('user', "a name without ':'");
    }
    if (typeof password !== 'string' || password === '' || password.includes('\0')) {
      throw refuse('password', 'a non-empty string without NUL');
    }
    return { scheme, user, password };
  });
}

/** Each field may hold a password by mistake. */
const refusalOf =
  (entry: Record<string, unknown>, option: string) =>
  (field: string, expected: string): BadOptionError =>
    new BadOptionError(`${option}.${field}`, withheld(entry[field]), expected);

function isNetwork(id: string): boolean {
  const [, address = '', bits] = /^([^/]+)(?:\/(\d{1,3}))?$/.exec(id) ?? [];
  const version = isIP(address);
  return version !== 0 && Number(bits ?? 0) <= (version === 4 ? 32 : 128);
}
