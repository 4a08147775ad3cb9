import { createRequire } from 'node:module';
import { setImmediate } from 'node:timers';
import { ErrorCode } from '../../protocol/codes.js';
import { BadOptionError } from '../errors.js';
import { probe } from '../hosts.js';
import { detached } from '../listeners.js';
import type { Stat } from '../types.js';
import {
  attachError,
  type Connect,
  type ConnectRequest,
  type Credentials,
  type DownReason,
  permissionBits,
  type Reply,
  type Request,
  type RequestKind,
  type RequestOf,
  type ResultOf,
  type Transport,
} from './transport.js';

// The package is optional and has native code, so bundlers must not look for it: Node loads it at run time.
const load = createRequire(import.meta.url);

// The interface of the npm package `zookeeper`. Its own types lack the native object.
interface NativeStat extends Omit<Stat, 'ctime' | 'mtime'> {
  readonly ctime: Date;
  readonly mtime: Date;
}

type Done<A extends unknown[] = []> = (code: number, message: string, ...results: A) => void;

interface Native {
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
type NativeClient = new (config: object) => { native: Native };

// Only this file uses the npm package `zookeeper`. Its native object can abort or
// block the process. The rules that prevent this are applied here and, for arguments, in validation.ts.
// Above all: call the methods of `native` (the package's wrapper inspects every argument), and never
// `aw_*` (leaks, fires on every disconnect), `a_get_acl` (aborts) or `init` a second time.

const CONNECTED = 3;
const HANDSHAKING: readonly number[] = [1, 2];
const EXPIRED = -112;
const AUTH_FAILED = -113;
/** Milliseconds between checks of a handshake: the native client emits no event if a connection fails during it. */
const HANDSHAKE_CHECK = 50;
/** Bytes. A larger request may not fit into the free part of the socket's buffer. */
const LARGE = 8 * 1024;
/** Loopback addresses without a server. Nothing is sent to them, see #drop(). */
const NOWHERE = '127.255.255.253:1,127.255.255.254:1';

/**
 * Attaches sessions with the native client of the npm package `zookeeper`.
 *
 * @throws BadOptionError if the package is not installed, or its native code was not built
 */
export function connectNative(): Connect {
  const ZooKeeper = loadBinding();
  return async (request) => {
    await probe(request.address, request.signal);
    request.signal.throwIfAborted();
    return new Promise((resolve, reject) => {
      detached(() => new NativeTransport(new ZooKeeper({}).native, request, resolve, reject));
    });
  };
}

class NativeTransport implements Transport {
  /** Valid after the handshake, like `timeout`. */
  credentials: Credentials = { id: '0', password: '' };
  timeout = 0;
  readonly promptClose = false;
  #phase: 'handshake' | 'up' | 'broken' | 'over' = 'handshake';
  /** The replies that are missing until the session is attached: to the handshake and to each of the credentials. */
  #unanswered: number;
  #handshakeCheck: NodeJS.Timeout | undefined;

  constructor(
    private readonly native: Native,
    private readonly attempt: ConnectRequest,
    private readonly resolve: (transport: Transport) => void,
    private readonly reject: (reason: unknown) => void,
  ) {
    const { ip, port } = attempt.address;
    this.#unanswered = 1 + attempt.authInfo.length;
    native.emit = (event, _self, detail) => this.#onNativeEvent(event, detail);
    // The native client parses an IPv6 literal by its last colon, without brackets. It must never get a
    // name: it would resolve it after every reply, and lose the session when DNS fails.
    const result = native.init({
      connect: `${ip}:${port}`,
      timeout: attempt.sessionTimeout,
      debug_level: 0,
      host_order_deterministic: true,
      // With the default, eleven partial reads (one large znode) close the session.
      response_counter_limit: 1e9,
      ...(attempt.credentials && {
        client_id: attempt.credentials.id,
        client_password: attempt.credentials.password,
      }),
    });
    if (result instanceof Error) this.#failHandshake(result.message);
    // A connect that fails synchronously (no route) leaves the native client dead without a timer.
    else if (!HANDSHAKING.includes(native.state)) this.#failHandshake('no route');
    if (this.#phase !== 'handshake') return;

    // The native client sends them right after the handshake, before any request.
    for (const userPassword of attempt.authInfo) {
      native.add_auth('digest', userPassword, (code) => later(() => this.#onAuth(code)));
    }
    attempt.signal.addEventListener('abort', this.#onAbort, { once: true });
    this.#handshakeCheck = setInterval(() => {
      // 0 and 999: it failed, and would retry by itself after a third of the session timeout.
      if (native.state === 0 || native.state === 999) this.#failHandshake('the connection broke');
    }, HANDSHAKE_CHECK);
  }

  get server(): string {
    return this.attempt.address.label;
  }

  request<K extends RequestKind>(request: RequestOf<K>, reply: Reply<ResultOf<K>>): boolean {
    // While it is disconnected, the native client would queue the request and never send it.
    if (this.#phase !== 'up' || this.native.state !== CONNECTED) return false;
    // What does not fit into the socket's buffer is sent when the native client next handles its socket:
    // after the next reply, or a third of the session timeout. This read causes a reply.
    const pathLength = 'path' in request ? request.path.length : 0;
    const size = pathLength + ('data' in request ? request.data.length : 0);
    if (size >= LARGE) this.native.a_exists('/', false, () => {});
    const refused = this.#send(request, reply as Reply<unknown>) < 0;
    // After a send into a dead socket the native client closes the file descriptor without an event. The
    // event loop must stop polling it before another file gets the same descriptor.
    if (this.native.state !== CONNECTED) {
      this.#phase = 'broken';
      later(() => {
        if (this.#phase !== 'broken') return;
        this.#phase = 'over';
        this.attempt.listener.onDown('disconnected');
      });
      this.#drop();
    }
    return !refused;
  }

  async close(): Promise<boolean> {
    if (this.#phase === 'over') return false;
    this.#phase = 'over';
    this.native.close();
    return true;
  }

  destroy(): void {
    if (this.#phase === 'over') return;
    const dropped = this.#phase === 'broken';
    this.#phase = 'over';
    if (!dropped) this.#drop();
  }

  /** Sends a request. Returns the native client's result, negative if it refuses the request. */
  #send(request: Request, reply: Reply<unknown>): number {
    const { native } = this;
    const done = (code: number, _: string, result?: unknown) => later(() => reply(code, result));
    const withStat = (code: number, _: string, stat: NativeStat) =>
      later(() => reply(code, toStat(stat)));
    switch (request.kind) {
      case 'create': {
        const { path, data, flags, ttl } = request;
        return ttl === undefined
          ? native.a_create(path, data, flags, done)
          : native.a_create_ttl(path, data, flags, ttl, done);
      }
      case 'delete':
        return native.a_delete_(request.path, request.version, done);
      case 'get':
        return native.a_get(request.path, request.watch ?? false, (code, _, stat, data) =>
          later(() => reply(code, { data: data ?? Buffer.alloc(0), stat: toStat(stat) })),
        );
      case 'set':
        return native.a_set(request.path, request.data, request.version, withStat);
      case 'exists':
        return native.a_exists(request.path, request.watch ?? false, withStat);
      case 'children':
        return native.a_get_children2(
          request.path,
          request.watch ?? false,
          (code, _, children, stat) => later(() => reply(code, { children, stat: toStat(stat) })),
        );
      case 'sync':
        return native.a_sync(request.path, (code) => later(() => reply(code, undefined)));
      case 'setAcl': {
        const acl = request.acl.map(({ scheme, id, permissions }) => ({
          perm: permissionBits(permissions),
          scheme,
          auth: id,
        }));
        return native.a_set_acl(request.path, request.version, acl, done);
      }
      // The native client cannot send the others. A server keeps a watch until it fires or the session ends.
      default:
        later(() => reply(ErrorCode.unsupported, undefined));
        return 0;
    }
  }

  #onNativeEvent(event: string, detail: unknown): void {
    switch (event) {
      case 'connect':
        return later(() => this.#onAnswered());
      case 'connecting':
        // The native client would reconnect and send all its watches in one packet, which loops forever
        // above 1 MiB. #break() closes it first: with a single host its next attempt waits for a timer,
        // and the immediate runs before. So watched paths need no limit.
        return later(() => this.#break('disconnected'));
      case 'close':
        // The native client closed itself with this code; 0 is the result of close().
        if (detail === EXPIRED) return later(() => this.#break('expired'));
        if (detail === AUTH_FAILED) return later(() => this.#break('unauthorized'));
        return;
      case 'created':
      case 'deleted':
      case 'changed':
      case 'child':
        return later(() => {
          if (this.#phase !== 'over') this.attempt.listener.onWatch(event, String(detail));
        });
    }
  }

  #onAuth(code: number): void {
    if (code === ErrorCode.ok) this.#onAnswered();
    // Any other code means that the connection broke before the reply.
    else this.#break(code === ErrorCode.authFailed ? 'unauthorized' : 'disconnected');
  }

  #onAnswered(): void {
    if (this.#phase !== 'handshake' || --this.#unanswered > 0) return;
    if (this.native.state !== CONNECTED) return this.#failHandshake('the connection broke');
    this.#endHandshake('up');
    this.credentials = { id: this.native.client_id, password: this.native.client_password };
    this.timeout = this.native.timeout;
    this.resolve(this);
  }

  #onAbort = (): void => this.#rejectAttempt(this.attempt.signal.reason);

  #failHandshake(why: string, reason: DownReason = 'disconnected'): void {
    this.#rejectAttempt(attachError(this.attempt, reason, why));
  }

  #rejectAttempt(error: unknown): void {
    if (this.#phase !== 'handshake') return;
    this.#endHandshake('over');
    this.#drop();
    this.reject(error);
  }

  #endHandshake(next: 'up' | 'over'): void {
    this.#phase = next;
    clearInterval(this.#handshakeCheck);
    this.attempt.signal.removeEventListener('abort', this.#onAbort);
  }

  #break(reason: DownReason): void {
    if (this.#phase === 'handshake') return this.#failHandshake('the connection broke', reason);
    if (this.#phase !== 'up') return;
    this.#phase = 'over';
    this.#drop();
    this.attempt.listener.onDown(reason);
  }

  /**
   * Closes the connection, but not the session. While connected, native.close() blocks the event loop
   * until the server replies, up to 1.5 s (4.5 s with a full send buffer). A new list of servers without
   * the current one disconnects at once, and then native.close() does not block.
   */
  #drop(): void {
    if (this.native.state === CONNECTED) this.native.set_servers(NOWHERE);
    this.native.close();
  }
}

/** @throws BadOptionError if the package is not installed, or its native code was not built */
function loadBinding(): NativeClient {
  try {
    return load('zookeeper') as NativeClient;
  } catch (cause) {
    const message =
      "transport is 'native', but the npm package `zookeeper` cannot be loaded: run `npm install zookeeper`, and approve its install script if npm asks. It needs python3, make and g++. Or leave transport out";
    throw new BadOptionError('transport', 'native', { message }, { cause });
  }
}

/** Converts the stat of a reply. The native client passes null with any code but 0. */
function toStat(stat: NativeStat): Stat {
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

/**
 * Handles a callback of the native client in the next turn of the event loop. During the callback the native
 * client may have closed a socket that the event loop still polls: a socket opened then gets the same file
 * descriptor, and both hang; a second native object created then segfaults.
 */
function later(work: () => void): void {
  detached(() => setImmediate(work));
}
