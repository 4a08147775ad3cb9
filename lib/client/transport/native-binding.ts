import { createRequire } from 'node:module';
import { setImmediate } from 'node:timers';
import { BadOptionError } from '../errors.js';
import { detached } from '../listeners.js';
import type { Acl, Stat } from '../types.js';
import { permissionBits } from './transport.js';

// The package is optional and has native code, so bundlers must not look for it: Node loads it at run time.
const load = createRequire(import.meta.url);

// The interface of the npm package `zookeeper`. Its own types lack the native object.
interface NativeStat extends Omit<Stat, 'ctime' | 'mtime'> {
  readonly ctime: Date;
  readonly mtime: Date;
}

type Done<A extends unknown[] = []> = (code: number, message: string, ...results: A) => void;

export interface Native {
  readonly state: number;
  readonly client_id: string;
  readonly client_password: string;
  readonly timeout: number;
  /** The binding calls it with session events and watch events. */
  emit: (event: string, self: unknown, detail: unknown) => void;
  /** Returns an Error, and does not throw it, if it fails. */
  init(config: Record<string, unknown>): unknown;
  close(): void;
  set_servers(servers: string): number;
  add_auth(scheme: string, credentials: string, done: Done): number;
  a_create(path: string, data: Buffer, flags: number, done: Done<[string]>): number;
  a_create_ttl(
    path: string,
    data: Buffer,
    flags: number,
    ttl: number,
    done: Done<[string]>,
  ): number;
  a_delete_(path: string, version: number, done: Done): number;
  a_get(path: string, watch: boolean, done: Done<[NativeStat, Buffer | null]>): number;
  a_set(path: string, data: Buffer, version: number, done: Done<[NativeStat]>): number;
  a_exists(path: string, watch: boolean, done: Done<[NativeStat]>): number;
  a_get_children2(path: string, watch: boolean, done: Done<[string[], NativeStat]>): number;
  a_sync(path: string, done: Done<[string]>): number;
  a_set_acl(path: string, version: number, acl: NativeAcl[], done: Done): number;
}

interface NativeAcl {
  perm: number;
  scheme: string;
  auth: string;
}

/** The class that the package exports. */
export type NativeClient = new (config: object) => { native: Native };

/** @throws BadOptionError if the package is not installed, or its native code was not built */
export function loadBinding(): NativeClient {
  try {
    return load('zookeeper') as NativeClient;
  } catch (cause) {
    const message =
      "transport is 'native', but the npm package `zookeeper` cannot be loaded: run `npm install zookeeper`, and approve its install script if npm asks. It needs python3, make and g++. Or leave transport out";
    throw new BadOptionError('transport', 'native', { message }, { cause });
  }
}

/** Converts the stat of a reply. The native client passes null with any code but 0. */
export function toStat(stat: NativeStat): Stat {
  if (!stat) return stat;
  return {
    czxid: stat.czxid,
    mzxid: stat.mzxid,
    pzxid: stat.pzxid,
    ctime: stat.ctime.getTime(),
    mtime: stat.mtime.getTime(),
    version: stat.version,
    cversion: stat.cversion,
    aversion: stat.aversion,
    ephemeralOwner: stat.ephemeralOwner,
    dataLength: stat.dataLength,
    numChildren: stat.numChildren,
  };
}

export function toNativeAcl({ scheme, id, permissions }: Acl): NativeAcl {
  return { perm: permissionBits(permissions), scheme, auth: id };
}

/**
 * Handles a callback of the native client in the next turn of the event loop. During the callback the native
 * client may have closed a socket that the event loop still polls: a socket opened then gets the same file
 * descriptor, and both hang; a second native object created then segfaults.
 */
export function later(work: () => void): void {
  detached(() => setImmediate(work));
}
