import { ErrorCode } from '../../protocol/index.js';
import { detached } from '../listeners.js';
import type { Acl, Stat } from '../types.js';
import { later, type Native, type NativeClient, toNativeAcl, toStat } from './native-binding.js';
import { probe } from './tcp-probe.js';
import {
  attachError,
  type Connect,
  type ConnectRequest,
  type Credentials,
  type DownReason,
  type Reply,
  type Transport,
} from './transport.js';

// Only this file and native-binding.ts use the npm package `zookeeper`. Its native object can abort or
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

/** Returns a function that attaches a session with the native client of the npm package `zookeeper`. */
export function connectNative(ZooKeeper: NativeClient): Connect {
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
    private readonly request: ConnectRequest,
    private readonly resolve: (transport: Transport) => void,
    private readonly reject: (reason: unknown) => void,
  ) {
    const { ip, port } = request.address;
    this.#unanswered = 1 + request.authInfo.length;
    native.emit = (event, _self, detail) => this.#onNativeEvent(event, detail);
    // The native client parses an IPv6 literal by its last colon, without brackets. It must never get a
    // name: it would resolve it after every reply, and lose the session when DNS fails.
    const result = native.init({
      connect: `${ip}:${port}`,
      timeout: request.sessionTimeout,
      debug_level: 0,
      host_order_deterministic: true,
      // With the default, eleven partial reads (one large znode) close the session.
      response_counter_limit: 1e9,
      ...(request.credentials && {
        client_id: request.credentials.id,
        client_password: request.credentials.password,
      }),
    });
    if (result instanceof Error) this.#failHandshake(result.message);
    // A connect that fails synchronously (no route) leaves the native client dead without a timer.
    else if (!HANDSHAKING.includes(native.state)) this.#failHandshake('no route');
    if (this.#phase !== 'handshake') return;

    // The native client sends them right after the handshake, before any request.
    for (const userPassword of request.authInfo) {
      native.add_auth('digest', userPassword, (code) => later(() => this.#onAuth(code)));
    }
    request.signal.addEventListener('abort', this.#onAbort, { once: true });
    this.#handshakeCheck = setInterval(() => {
      // 0 and 999: it failed, and would retry by itself after a third of the session timeout.
      if (native.state === 0 || native.state === 999) this.#failHandshake('the connection broke');
    }, HANDSHAKE_CHECK);
  }

  get server(): string {
    return this.request.address.label;
  }

  create(
    path: string,
    data: Buffer,
    flags: number,
    ttl: number | undefined,
    _acl: undefined,
    reply: Reply<string>,
  ): boolean {
    const done = (code: number, _: string, created: string) => later(() => reply(code, created));
    return this.#send(path.length + data.length, () =>
      ttl === undefined
        ? this.native.a_create(path, data, flags, done)
        : this.native.a_create_ttl(path, data, flags, ttl, done),
    );
  }

  delete(path: string, version: number, reply: Reply<void>): boolean {
    return this.#send(path.length, () =>
      this.native.a_delete_(path, version, (code) => later(() => reply(code))),
    );
  }

  get(path: string, watch: boolean, reply: Reply<{ data: Buffer; stat: Stat }>): boolean {
    return this.#send(path.length, () =>
      this.native.a_get(path, watch, (code, _, stat, data) =>
        later(() => reply(code, { data: data ?? Buffer.alloc(0), stat: toStat(stat) })),
      ),
    );
  }

  set(path: string, data: Buffer, version: number, reply: Reply<Stat>): boolean {
    return this.#send(path.length + data.length, () =>
      this.native.a_set(path, data, version, (code, _, stat) =>
        later(() => reply(code, toStat(stat))),
      ),
    );
  }

  exists(path: string, watch: boolean, reply: Reply<Stat>): boolean {
    return this.#send(path.length, () =>
      this.native.a_exists(path, watch, (code, _, stat) => later(() => reply(code, toStat(stat)))),
    );
  }

  children(
    path: string,
    watch: boolean,
    reply: Reply<{ children: string[]; stat: Stat }>,
  ): boolean {
    return this.#send(path.length, () =>
      this.native.a_get_children2(path, watch, (code, _, children, stat) =>
        later(() => reply(code, { children, stat: toStat(stat) })),
      ),
    );
  }

  sync(path: string, reply: Reply<void>): boolean {
    return this.#send(path.length, () =>
      this.native.a_sync(path, (code) => later(() => reply(code))),
    );
  }

  setAcl(path: string, acl: readonly Acl[], version: number, reply: Reply<void>): boolean {
    return this.#send(path.length, () =>
      this.native.a_set_acl(path, version, acl.map(toNativeAcl), (code) =>
        later(() => reply(code)),
      ),
    );
  }

  multi(_operations: unknown, _acl: unknown, reply: Reply<never>): boolean {
    return this.#refuse(reply);
  }

  addWatch(_path: string, _recursive: boolean, reply: Reply<never>): boolean {
    return this.#refuse(reply);
  }

  /** The server keeps the watch until it fires or the session ends. */
  removeWatch(_path: string, _kind: unknown, reply: Reply<never>): boolean {
    return this.#refuse(reply);
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

  #send(size: number, request: () => number): boolean {
    // While it is disconnected, the native client would queue the request and never send it.
    if (this.#phase !== 'up' || this.native.state !== CONNECTED) return false;
    // What does not fit into the socket's buffer is sent when the native client next handles its socket:
    // after the next reply, or a third of the session timeout. This read causes a reply.
    if (size >= LARGE) this.native.a_exists('/', false, () => {});
    const refused = request() < 0;
    // After a send into a dead socket the native client closes the file descriptor without an event. The
    // event loop must stop polling it before another file gets the same descriptor.
    if (this.native.state !== CONNECTED) {
      this.#phase = 'broken';
      later(() => {
        if (this.#phase !== 'broken') return;
        this.#phase = 'over';
        this.request.listener.onDown('disconnected');
      });
      this.#drop();
    }
    return !refused;
  }

  /** Answers a request that the native client cannot send. */
  #refuse(reply: Reply<never>): boolean {
    if (this.#phase !== 'up') return false;
    later(() => reply(ErrorCode.unsupported, undefined as never));
    return true;
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
          if (this.#phase !== 'over') this.request.listener.onWatch(event, String(detail));
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

  #onAbort = (): void => this.#rejectAttempt(this.request.signal.reason);

  #failHandshake(why: string, reason: DownReason = 'disconnected'): void {
    this.#rejectAttempt(attachError(this.request, reason, why));
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
    this.request.signal.removeEventListener('abort', this.#onAbort);
  }

  #break(reason: DownReason): void {
    if (this.#phase === 'handshake') return this.#failHandshake('the connection broke', reason);
    if (this.#phase !== 'up') return;
    this.#phase = 'over';
    this.#drop();
    this.request.listener.onDown(reason);
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
