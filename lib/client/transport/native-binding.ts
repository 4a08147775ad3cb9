import { detached } from '../listeners.js';
import { permissionBits } from '../types.js';
import type { Acl, Stat } from '../types.js';

// What the npm package `zookeeper` looks like from here. It may be missing, so its types are not used
// (they leave the native object out), and the compiler does not look for it.
const PACKAGE: string = 'zookeeper';

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
  /** Called by the binding for session events and watches. */
  emit: (event: string, self: unknown, detail: unknown) => void;
  /** Returns, not throws, an Error where it fails. */
  init(config: Record<string, unknown>): unknown;
  close(): void;
  set_servers(servers: string): number;
  add_auth(scheme: string, credentials: string, done: Done): number;
  a_create(path: string, data: Buffer, flags: number, done: Done<[string]>): number;
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

export async function loadBinding(): Promise<new (config: object) => { native: Native }> {
  try {
    return ((await import(PACKAGE)) as { default: unknown }).default as never;
  } catch (cause) {
    throw new Error(
      'the npm package `zookeeper` cannot be loaded (its install script must run: approve it where npm asks, and have python3, make and g++)',
      { cause },
    );
  }
}

/** Only of an answer with code 0; the native client passes null with any other. */
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

/** Work for the next turn of the event loop, in its order and in nobody's asynchronous context. */
export class NextTurn {
  #queue: (() => void)[] = [];

  /** One immediate serves all that is queued before it runs. */
  add(work: () => void): void {
    if (this.#queue.push(work) === 1) detached(() => setImmediate(() => this.#drain()));
  }

  #drain(): void {
    const batch = this.#queue;
    this.#queue = [];
    for (const work of batch) work();
  }
}
