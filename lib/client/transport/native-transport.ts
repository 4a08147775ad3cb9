import { probe } from '../connect-string.js';
import { detached } from '../listeners.js';
import { loadBinding, toNativeAcl, toStat, type Native } from './native-binding.js';
import { NextTurn } from './native-binding.js';
import { refusalOf } from '../reply-errors.js';
import {
  type Capabilities,
  Code,
  type Connect,
  type ConnectRequest,
  type Credentials,
  type DownReason,
  type NodeEvent,
  type Reply,
  type Transport,
} from './transport.js';
import type { Acl, Stat } from '../types.js';

// Together with native-binding.ts the one place that knows the npm package `zookeeper`. Its native
// object can abort or wedge the process; every rule that keeps it from doing so is applied here or, for
// arguments, in validation.ts.
// Above all: `native` is called by its own methods (the package's wrapper inspects every argument),
// never `aw_*` (leaks, fires on every disconnect), `a_get_acl` (aborts) or `init` a second time.

const CONNECTED = 3;
const HANDSHAKING: readonly number[] = [1, 2];
const EXPIRED = -112;
const AUTH_FAILED = -113;
/** How often a handshake is looked at: the native client gives no event when a connection fails before it stood. */
const HANDSHAKE_LOOK = 50;
/** A request of this size may not fit the socket's buffer in one go. */
const LARGE = 8 * 1024;
/** Loopback addresses that are nobody's server. Nothing is ever sent there: see #drop. */
const NOWHERE = '127.255.255.253:1,127.255.255.254:1';

/** Attaches a session by the native client of the npm package `zookeeper`. */
export const connectNative: Connect = async (request) => {
  const ZooKeeper = await loadBinding();
  await probe(request.address, request.signal);
  request.signal.throwIfAborted();
  return new Promise((resolve, reject) => {
    detached(() =>
      new NativeTransport(new ZooKeeper({}).native, request, { resolve, reject }).start(),
    );
  });
};

interface Settle {
  resolve(transport: Transport): void;
  reject(reason: unknown): void;
}

class NativeTransport implements Transport {
  /** These two are known once it is attached. */
  credentials: Credentials = { id: '0', password: '' };
  timeout = 0;
  readonly capabilities: Capabilities = {
    aclOnCreate: false,
    promptClose: false,
  };
  readonly #native: Native;
  readonly #request: ConnectRequest;
  #phase: 'handshake' | 'up' | 'broken' | 'over' = 'handshake';
  readonly #settle: Settle;
  #look: NodeJS.Timeout | undefined;
  #unanswered: number;
  readonly #nextTurn = new NextTurn();

  constructor(native: Native, request: ConnectRequest, settle: Settle) {
    this.#native = native;
    this.#request = request;
    this.#settle = settle;
    // The handshake, and each credential: the attachment stands when all are answered.
    this.#unanswered = 1 + request.digests.length;
    native.emit = (event, _self, detail) => this.#onNativeEvent(event, detail);
  }

  start(): void {
    const native = this.#native;
    const request = this.#request;
    const { ip, port } = request.address;
    // The native client parses an IPv6 literal by its last colon, without brackets. A name must never
    // reach it: it would resolve it after every reply, and lose the session when the DNS is away.
    const result = native.init({
      connect: `${ip}:${port}`,
      timeout: request.sessionTimeout,
      debug_level: 0,
      host_order_deterministic: true,
      // Otherwise eleven partial reads, one large node, close the session.
      response_counter_limit: 1e9,
      ...(request.credentials && {
        client_id: request.credentials.id,
        client_password: request.credentials.password,
      }),
    });
    if (result instanceof Error) return this.#failHandshake(result.message);
    // A connect that fails synchronously (no route) leaves the native client dead without a timer.
    if (!HANDSHAKING.includes(native.state)) return this.#failHandshake('no route');

    // Queued by the native client until the handshake is done, and sent before anything else.
    for (const digest of request.digests) {
      native.add_auth('digest', digest, (code) => this.#later(() => this.#onAuth(code)));
    }
    request.signal.addEventListener('abort', this.#onAbort, { once: true });
    this.#look = setInterval(() => {
      // 0 and 999: it gave up, and would try again by itself a third of the session timeout later.
      if (native.state === 0 || native.state === 999) this.#failHandshake('the connection broke');
    }, HANDSHAKE_LOOK);
  }

  create(
    path: string,
    data: Buffer,
    flags: number,
    _acl: undefined,
    reply: Reply<string>,
  ): boolean {
    return this.#send(path.length + data.length, () =>
      this.#native.a_create(path, data, flags, (code, _, created) =>
        this.#later(() => reply(code, created)),
      ),
    );
  }

  delete(path: string, version: number, reply: Reply<void>): boolean {
    return this.#send(path.length, () =>
      this.#native.a_delete_(path, version, (code) => this.#later(() => reply(code))),
    );
  }

  get(path: string, watch: boolean, reply: Reply<{ data: Buffer; stat: Stat }>): boolean {
    return this.#send(path.length, () =>
      this.#native.a_get(path, watch, (code, _, stat, data) =>
        this.#later(() => reply(code, { data: data ?? Buffer.alloc(0), stat: toStat(stat) })),
      ),
    );
  }

  set(path: string, data: Buffer, version: number, reply: Reply<Stat>): boolean {
    return this.#send(path.length + data.length, () =>
      this.#native.a_set(path, data, version, (code, _, stat) =>
        this.#later(() => reply(code, toStat(stat))),
      ),
    );
  }

  exists(path: string, watch: boolean, reply: Reply<Stat>): boolean {
    return this.#send(path.length, () =>
      this.#native.a_exists(path, watch, (code, _, stat) =>
        this.#later(() => reply(code, toStat(stat))),
      ),
    );
  }

  children(
    path: string,
    watch: boolean,
    reply: Reply<{ children: string[]; stat: Stat }>,
  ): boolean {
    return this.#send(path.length, () =>
      this.#native.a_get_children2(path, watch, (code, _, children, stat) =>
        this.#later(() => reply(code, { children, stat: toStat(stat) })),
      ),
    );
  }

  sync(path: string, reply: Reply<void>): boolean {
    return this.#send(path.length, () =>
      this.#native.a_sync(path, (code) => this.#later(() => reply(code))),
    );
  }

  setAcl(path: string, acl: readonly Acl[], version: number, reply: Reply<void>): boolean {
    return this.#send(path.length, () =>
      this.#native.a_set_acl(path, version, acl.map(toNativeAcl), (code) =>
        this.#later(() => reply(code)),
      ),
    );
  }

  async close(): Promise<boolean> {
    if (this.#phase === 'over') return false;
    this.#phase = 'over';
    this.#native.close();
    return true;
  }

  abandon(): void {
    if (this.#phase === 'over') return;
    const dropped = this.#phase === 'broken';
    this.#phase = 'over';
    if (!dropped) this.#drop();
  }

  #send(size: number, request: () => number): boolean {
    // While it is disconnected it takes requests all the same, for a connection that never comes.
    if (this.#phase !== 'up' || this.#native.state !== CONNECTED) return false;
    // What does not fit the socket's buffer waits until the native client next looks at its socket,
    // which without a reply to come is up to a third of the session timeout later: let a reply come.
    if (size >= LARGE) this.#native.a_exists('/', false, () => {});
    const refused = request() < 0;
    // A send into a socket that died unseen: it closes the descriptor under the event loop and gives
    // no event. Before anything else opens a file that gets the same number, the poll handle must go.
    if (this.#native.state !== CONNECTED) {
      this.#phase = 'broken';
      this.#later(() => {
        if (this.#phase !== 'broken') return;
        this.#phase = 'over';
        this.#request.listener.onDown('disconnected');
      });
      this.#drop();
    }
    return !refused;
  }

  #onNativeEvent(event: string, detail: unknown): void {
    switch (event) {
      case 'connect':
        return this.#later(() => this.#onAnswered());
      case 'connecting':
        // The native client would connect again by itself and send all its watches in one packet, which
        // loops for ever above a mebibyte. It cannot get that far, so watched paths need no cap: with a
        // single host its next attempt waits for a timer, and the immediate that closes it comes first.
        return this.#later(() => this.#break('disconnected'));
      case 'close':
        // It closed itself, for this code; 0 answers our own close().
        if (detail === EXPIRED) return this.#later(() => this.#break('expired'));
        if (detail === AUTH_FAILED) return this.#later(() => this.#break('unauthorized'));
        return;
      case 'created':
      case 'deleted':
      case 'changed':
      case 'child':
        return this.#later(() => this.#onWatch(event, String(detail)));
    }
  }

  #onWatch(event: NodeEvent, path: string): void {
    if (this.#phase !== 'over') this.#request.listener.onWatch(event, path);
  }

  #onAuth(code: number): void {
    if (code === Code.Ok) this.#onAnswered();
    // Other codes are those of a connection that broke before the answer.
    else this.#break(code === Code.AuthFailed ? 'unauthorized' : 'disconnected');
  }

  #onAnswered(): void {
    if (this.#phase !== 'handshake' || --this.#unanswered > 0) return;
    if (this.#native.state !== CONNECTED) return this.#failHandshake('the connection broke');
    this.#endHandshake('up');
    this.credentials = { id: this.#native.client_id, password: this.#native.client_password };
    this.timeout = this.#native.timeout;
    this.#settle.resolve(this);
  }

  #onAbort = (): void => {
    if (this.#phase !== 'handshake') return;
    this.#endHandshake('over');
    this.#drop();
    this.#settle.reject(this.#request.signal.reason);
  };

  #failHandshake(why: string, reason: DownReason = 'disconnected'): void {
    if (this.#phase !== 'handshake') return;
    this.#endHandshake('over');
    this.#drop();
    this.#settle.reject(refusalOf(this.#request, reason, why));
  }

  #endHandshake(next: 'up' | 'over'): void {
    this.#phase = next;
    clearInterval(this.#look);
    this.#request.signal.removeEventListener('abort', this.#onAbort);
  }

  #break(reason: DownReason): void {
    if (this.#phase === 'handshake') return this.#failHandshake('the connection broke', reason);
    if (this.#phase !== 'up') return;
    this.#phase = 'over';
    this.#drop();
    this.#request.listener.onDown(reason);
  }

  /**
   * Closes without the close request, for whose answer native.close() waits up to 1.5 s (4.5 s with a
   * full send buffer) while blocking the event loop. Only a disconnected client closes at once, and a
   * new list of servers without the present one is what disconnects it at once.
   */
  #drop(): void {
    if (this.#native.state === CONNECTED) this.#native.set_servers(NOWHERE);
    this.#native.close();
  }

  /**
   * Everything the native client reports waits for the next turn, in order. While it reports, it may
   * have closed its socket but not yet told the event loop: a socket opened there gets the same file
   * descriptor and hangs, together with this connection, and a second native object segfaults.
   */
  #later(work: () => void): void {
    this.#nextTurn.add(work);
  }
}
