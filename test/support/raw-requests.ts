import {
  type Acl,
  CreateFlag,
  CreateRequest,
  OpCode,
  PathResponse,
  Permission,
  ReadRequest,
  StatResponse,
} from '../../lib/protocol/index.js';
import type { RawClient } from './raw-client.js';

/** The open ACL. */
export const OPEN: Acl[] = [{ perms: Permission.all, scheme: 'world', id: 'anyone' }];

export function create(
  client: RawClient,
  path: string,
  flags: number = CreateFlag.persistent,
  data: Buffer | null = null,
) {
  const request = { path, data, acl: OPEN, flags };
  return client.request(OpCode.create, CreateRequest, request, PathResponse);
}

export function exists(client: RawClient, path: string, watch = false) {
  return client.request(OpCode.exists, ReadRequest, { path, watch }, StatResponse);
}
