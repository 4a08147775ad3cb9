import {
  type Acl,
  CoordinationError,
  ConnectionError,
  NodeError,
  type ServerKind,
  type Stat,
} from '../../client/index.js';
import { replyError } from '../../client/reply-errors.js';
import { identifyServer } from '../../client/server-kind.js';
import type {
  Address,
  Connect,
  Credentials,
  MultiOperation,
  MultiOutcome,
  Reply,
  Transport,
} from '../../client/transport/transport.js';

/** Milliseconds for a connection, and for the reply to a request. RaftKeeper never replies to an unknown request. */
export const REPLY_LIMIT = 5000;

/** Where the checks connect to. */
export interface Target {
  readonly connect: Connect;
  /** The requested session timeout, milliseconds. */
  readonly sessionTimeout: number;
  readonly authInfo: readonly string[];
  /** Aborts when the command is interrupted. */
  readonly signal: AbortSignal;
}

/** The flags of znodes. */
export const FLAGS = { persistent: 0, ephemeral: 1, container: 4, ttl: 5 } as const;

const NO_DATA = Buffer.alloc(0);

/**
 * A session on one connection to one server. Each request has a limit. The session never resumes, so a request that the
 * server answers by closing the connection costs only this session.
 */
export class ProbeSession {
  readonly #transport: Transport;
  readonly #signal: AbortSignal;
  /** Keeps the session alive while other servers are probed. */
  readonly #pings: NodeJS.Timeout;

  private constructor(
    transport: Transport,
    readonly address: Address,
    readonly kind: ServerKind,
    signal: AbortSignal,
  ) {
    this.#transport = transport;
    this.#signal = signal;
    const ping = () => transport.exists('/', false, () => {});
    this.#pings = setInterval(ping, transport.timeout / 4).unref();
  }

  /**
   * Opens a session, or resumes the one of the credentials, and recognizes the server before any other request.
   *
   * @throws CoordinationError, or the signal's reason
   */
  static async open(
    { connect, sessionTimeout, authInfo, signal }: Target,
    address: Address,
    credentials?: Credentials,
  ): Promise<ProbeSession> {
    const controller = new AbortController();
    const limit = `${address.label}: no session within ${REPLY_LIMIT / 1000} s`;
    const timer = setTimeout(() => controller.abort(new ConnectionError(limit)), REPLY_LIMIT);
    const both = AbortSignal.any([signal, controller.signal]);
    const listener = { onWatch() {}, onDown() {} };
    try {
      const request = { address, sessionTimeout, authInfo, credentials, signal: both, listener };
      const transport = await connect(request);
      const kind = await identifyServer(transport, true, both);
      return new ProbeSession(transport, address, kind, signal);
    } finally {
      clearTimeout(timer);
    }
  }

  get credentials(): Credentials {
    return this.#transport.credentials;
  }

  /** The granted session timeout, milliseconds. */
  get timeout(): number {
    return this.#transport.timeout;
  }

  create(path: string, flags: number, ttl?: number, acl?: readonly Acl[]): Promise<string> {
    return this.#request('create', path, (transport, reply: Reply<string>) =>
      transport.create(path, NO_DATA, flags, ttl, acl, reply),
    );
  }

  /** Creates a znode unless it exists, because a lost reply may have created it. */
  async ensure(path: string, flags: number, ttl?: number): Promise<void> {
    try {
      await this.create(path, flags, ttl);
    } catch (error) {
      if (!isCode(error, 'NODE_EXISTS')) throw error;
    }
  }

  delete(path: string): Promise<void> {
    return this.#request('delete', path, (transport, reply: Reply<void>) =>
      transport.delete(path, -1, reply),
    );
  }

  async get(path: string): Promise<string> {
    const { data } = await this.#request(
      'get',
      path,
      (transport, reply: Reply<{ data: Buffer; stat: Stat }>) => transport.get(path, false, reply),
    );
    return data.toString();
  }

  set(path: string): Promise<Stat> {
    return this.#request('set', path, (transport, reply: Reply<Stat>) =>
      transport.set(path, NO_DATA, -1, reply),
    );
  }

  /** Resolves to undefined if the znode does not exist. */
  async exists(path: string, watch = false): Promise<Stat | undefined> {
    const sent = this.#request('exists', path, (transport, reply: Reply<Stat>) =>
      transport.exists(path, watch, reply),
    );
    return sent.catch((error: unknown) => {
      if (isCode(error, 'NO_NODE')) return undefined;
      throw error;
    });
  }

  async children(path: string): Promise<string[]> {
    const { children } = await this.#request(
      'list',
      path,
      (transport, reply: Reply<{ children: string[]; stat: Stat }>) =>
        transport.children(path, false, reply),
    );
    return children;
  }

  sync(path: string): Promise<void> {
    return this.#request('sync', path, (transport, reply: Reply<void>) =>
      transport.sync(path, reply),
    );
  }

  multi(operations: readonly MultiOperation[]): Promise<MultiOutcome> {
    return this.#request('multi', operations[0]!.path, (transport, reply: Reply<MultiOutcome>) =>
      transport.multi!(operations, undefined, reply),
    );
  }

  addWatch(path: string): Promise<void> {
    return this.#request('addWatch', path, (transport, reply: Reply<void>) =>
      transport.addWatch!(path, true, reply),
    );
  }

  removeWatch(path: string): Promise<void> {
    return this.#request('removeWatches', path, (transport, reply: Reply<void>) =>
      transport.removeWatch!(path, 'data', reply),
    );
  }

  /** Ends the session. */
  async close(): Promise<void> {
    clearInterval(this.#pings);
    await this.#transport.close();
  }

  /** Drops the connection. The session remains. */
  drop(): void {
    clearInterval(this.#pings);
    this.#transport.destroy();
  }

  /** @throws CoordinationError, also if there is no reply in time, or the signal's reason */
  #request<T>(
    operation: string,
    path: string,
    send: (transport: Transport, reply: Reply<T>) => boolean,
  ): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const settle = (end: () => void) => {
        clearTimeout(timer);
        this.#signal.removeEventListener('abort', abort);
        end();
      };
      const abort = () => settle(() => reject(this.#signal.reason));
      const timer = setTimeout(() => {
        settle(() => reject(new ConnectionError(`no reply within ${REPLY_LIMIT / 1000} s`)));
      }, REPLY_LIMIT);
      this.#signal.addEventListener('abort', abort, { once: true });
      if (this.#signal.aborted) return abort();
      const sent = send(this.#transport, (code, result) =>
        settle(() => (code === 0 ? resolve(result) : reject(replyError(code, operation, path)))),
      );
      const closed = () => reject(new ConnectionError('the server had closed the connection'));
      if (!sent) settle(closed);
    });
  }
}

export function isCode(error: unknown, code: NodeError['code']): boolean {
  return error instanceof NodeError && error.code === code;
}

/** Returns why a probe failed, in a few words. Rethrows what the server did not cause. */
export function failureOf(error: unknown): string {
  if (!(error instanceof CoordinationError)) throw error;
  if (isCode(error, 'UNIMPLEMENTED')) return 'the server does not implement it';
  if (error instanceof ConnectionError && error.maybeApplied)
    return 'the server closed the connection';
  return error.message;
}
