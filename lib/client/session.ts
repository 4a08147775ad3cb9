import { setImmediate } from 'node:timers';
import { CreateFlag, ErrorCode } from '../protocol/codes.js';
import type { Connection, ServerKind } from './connector.js';
import {
  type BadOptionError,
  ConnectionError,
  type CoordinationError,
  NotAuthorizedError,
  SessionExpiredError,
  type ShuttingDownError,
} from './errors.js';
import { Listeners } from './listeners.js';
import type { NormalizedOptions } from './options.js';
import {
  attachmentError,
  CREATE_CONTAINER,
  CREATE_TTL,
  operationOf,
  replyError,
} from './reply-errors.js';
import { instant, isAnswer, KeepAlive, SessionDeadline } from './session-deadline.js';
import {
  bytesOfAcl,
  checkTransaction,
  type TransactionOperation,
  type TransactionResults,
} from './transaction.js';
import type {
  Content,
  Credentials,
  DownReason,
  Listing,
  Reply,
  Request,
  RequestKind,
  RequestOf,
  ResultOf,
  Transport,
  TransportListener,
} from './transport/transport.js';
import type {
  Acl,
  CreateOptions,
  PersistentWatch,
  Stat,
  Watch,
  WatchNotification,
} from './types.js';
import {
  BOOLEAN,
  checkAcl,
  checkCreateOptions,
  checkData,
  checkFunction,
  checkMode,
  checkOptions,
  checkRequest,
  checkVersion,
  uncheckedRules,
} from './validation.js';
import { ShortLivedMap } from './short-lived-map.js';
import { WatchRegistry } from './watch-registry.js';

type SessionEnd = SessionExpiredError | ShuttingDownError;

/** The options of a client that its sessions need. */
type SessionSettings = Pick<NormalizedOptions, 'chroot' | 'policy' | 'sessionTimeout' | 'acl'>;

/** Receives the changes of a session's connection: synchronously, but never inside a callback of the native client. */
interface SessionObserver {
  attached(): void;
  detached(reason: CoordinationError): void;
  /** @param confirmed whether the ensemble knows that the session is over */
  ended(reason: SessionEnd, confirmed: boolean): void;
  /** A server refuses to delete a node of {@link Session.guaranteedDelete}, with this result code. */
  deleteRefused(path: string, code: number): void;
}

/**
 * The state of a session:
 *
 *     new ──▶ connected ◀──▶ suspended
 *      │          │              │
 *      └──────────┴──────▶ over ◀┘
 */
interface State {
  readonly name: 'new' | 'connected' | 'suspended' | 'over';
  /** While connected. */
  readonly transport?: Transport;
  /** Why the session cannot be trusted: it is over or, under the policy `'standard'`, suspended. */
  readonly doubt?: CoordinationError;
  /** Why the session is over. */
  readonly end?: SessionEnd;
  /** Whether the ensemble knows that the session is over. */
  readonly confirmed?: boolean;
}

/** Rejects a request that gets no reply. */
type OnFailure = (reason: CoordinationError | undefined) => void;

type CreatedAndListed = (
  error: CoordinationError | undefined,
  path?: string,
  listing?: Listing,
) => void;
type Existence = { stat: Stat | undefined; watch: Watch };

const READ_RULES = { watch: BOOLEAN };
const CREATE_RULES = uncheckedRules('mode', 'ttl');
const NO_DATA = Buffer.alloc(0);

/** A follower without a leader answers them, so that the answer does not prove that the session is alive. */
const READS: ReadonlySet<RequestKind> = new Set(['get', 'exists', 'children', 'addWatch']);

/**
 * A ZooKeeper session. Its id never changes; when it is over, the client starts another session. Each
 * operation is one attempt, within this session only, and rejects with
 *
 * - ConnectionError: the request was not sent or, if `maybeApplied` is true, its reply was lost;
 * - SessionExpiredError: the session is over; a pending request may have been carried out;
 * - NodeError, NotAuthorizedError: the server refused the request;
 * - BadOptionError: an argument is invalid; nothing was sent;
 * - ShuttingDownError: the client was closed.
 *
 * Requests about one znode, or about a znode and its child, are carried out in the order of the calls. So a create and
 * the listing that is to include the new znode can be sent together. Others may pass each other.
 *
 * @publicApi
 */
export class Session {
  /** @internal */
  readonly deadline = new SessionDeadline(instant());
  // Private at run time as well: the settings of a client, and its transports, have its password.
  readonly #settings: SessionSettings;
  readonly #observer: SessionObserver;
  readonly #chroot: string;
  readonly #aclBytes: number;
  /** @internal */
  readonly watches = new WatchRegistry((watches, path) => {
    // Without this request the watch remains on the server until it fires.
    if (this.#serverKind === 'zookeeper')
      this.#state.transport?.request({ kind: 'removeWatch', path, watches }, () => {});
  });
  readonly #keepAlive = new KeepAlive(this.deadline, {
    isAlive: () => this.alive,
    sync: (reply) => this.#state.transport?.request({ kind: 'sync', path: '/' }, reply) ?? false,
    stalled: () => this.#dropStalled(),
  });
  /** The requests that have no reply. */
  readonly #pending = new ShortLivedMap<OnFailure, true>();
  /** The ephemeral znodes that are deleted on each new connection until a server has answered. */
  readonly #deletes = new ShortLivedMap<string, true>();
  readonly #lost = new Listeners<SessionEnd>();
  readonly #untrusted = new Listeners<CoordinationError>();
  #state: State = { name: 'new' };
  #credentials: Credentials | undefined;
  #serverKind: ServerKind | undefined;
  #timeout = 0;
  #lacksAddWatch = false;

  /** @internal */
  constructor(settings: SessionSettings, observer: SessionObserver) {
    this.#settings = settings;
    this.#observer = observer;
    this.#chroot = settings.chroot;
    this.#aclBytes = bytesOfAcl(settings.acl);
  }

  /** Hexadecimal, as in `Stat.ephemeralOwner`. */
  get id(): string {
    return this.#credentials?.id ?? '0';
  }

  /** The session timeout that the server granted, milliseconds. */
  get timeout(): number {
    return this.#timeout;
  }

  /**
   * Whether the session is known to be alive now. Each read of this property reads the clock, and ends the
   * session (state LOST) if it has had no reply for three quarters of its timeout.
   */
  get alive(): boolean {
    if (this.#state.end) return false;
    if (this.deadline.left > 0) return true;
    const silence = (this.deadline.age / 1000).toFixed(1);
    const message = `the session is lost: the leader has answered no request of the last ${silence} s, and the session timeout is ${this.#timeout / 1000} s`;
    this.#finish(new SessionExpiredError(message), false);
    return false;
  }

  /** Whether there is a connection. Without one, operations reject in the next turn of the event loop. */
  get connected(): boolean {
    return this.#state.name === 'connected';
  }

  /** Whether the session is alive and, under the policy `'standard'`, also connected. */
  get trusted(): boolean {
    return this.alive && (this.#settings.policy === 'session' || this.connected);
  }

  /**
   * Why the session is not trusted.
   *
   * @internal
   */
  get doubt(): CoordinationError | undefined {
    return this.#state.doubt;
  }

  /** The kind of the server of the latest connection; undefined before the first one. */
  get serverKind(): ServerKind | undefined {
    return this.#serverKind;
  }

  /** Calls a listener once when the session is over, or soon if it is already. Returns a function that removes the listener. */
  onLost(listener: (reason: SessionExpiredError | ShuttingDownError) => void): () => void {
    const { end } = this.#state;
    return end ? this.#lost.soon(listener, end) : this.#lost.add(listener);
  }

  /** Calls a listener once when the session is no longer trusted, or soon if it is not. Returns a function that removes the listener. */
  onUntrusted(listener: (reason: CoordinationError) => void): () => void {
    const { doubt } = this.#state;
    return doubt ? this.#untrusted.soon(listener, doubt) : this.#untrusted.add(listener);
  }

  /**
   * Creates a znode with the ACL of the client's option `acl`. Resolves to its path, which ends in ten digits if the mode is
   * sequential.
   *
   * `ttl` is a time to live for the modes `'persistent'` and `'persistent-sequential'`: the servers delete the znode when
   * it has had no children and no change for so many milliseconds (a whole number from 1 to 2,147,483,647, 24 days). They
   * look once a minute. Servers without the setting `zookeeper.extendedTypesEnabled=true` refuse it with a NodeError of
   * the code UNIMPLEMENTED. Default: none.
   *
   * @param data default: empty
   */
  async create(
    path: string,
    data?: string | Uint8Array,
    options: CreateOptions = {},
  ): Promise<string> {
    checkOptions(options, CREATE_RULES);
    const content = checkData(data);
    const full = checkRequest(this.#chroot, path, content, this.#aclBytes);
    const { flags, ttl } = checkCreateOptions(options);
    const request = this.#createRequest(full, content, flags, ttl);
    this.#assertSupported(request);
    return this.request(request, path, (created) => this.#relative(created));
  }

  /**
   * Deletes a znode without children.
   *
   * @param version the expected version of its data; default -1: any
   */
  async delete(path: string, version = -1): Promise<void> {
    const full = checkRequest(this.#chroot, path);
    return this.request({ kind: 'delete', path: full, version: checkVersion(version) }, path);
  }

  /** Reads data and stat, and watches for the next change of the data or the deletion of the znode. */
  get(path: string, options: { watch: true }): Promise<{ data: Buffer; stat: Stat; watch: Watch }>;
  /** Reads data and stat. */
  get(path: string, options?: { watch?: false }): Promise<{ data: Buffer; stat: Stat }>;
  async get(path: string, options?: { watch?: boolean }): Promise<Content> {
    return this.#read('get', path, options, (content, watch) =>
      watch ? { ...content, watch } : content,
    );
  }

  /**
   * Reads data and stat behind the create of another znode, which was requested before.
   *
   * @param created the path of that znode
   * @internal
   */
  async getAfter(path: string, created: string): Promise<Content> {
    const full = checkRequest(this.#chroot, path);
    return this.request({ kind: 'get', path: full, after: this.#chroot + created }, path);
  }

  /**
   * Replaces the data of an existing znode.
   *
   * @param version the expected version of its data; default -1: any
   */
  async set(path: string, data: string | Uint8Array, version = -1): Promise<Stat> {
    const content = checkData(data);
    const full = checkRequest(this.#chroot, path, content);
    checkVersion(version);
    return this.request({ kind: 'set', path: full, data: content, version }, path);
  }

  /** Reads the stat, undefined if the znode does not exist, and watches for its creation, deletion or next change. */
  exists(path: string, options: { watch: true }): Promise<{ stat: Stat | undefined; watch: Watch }>;
  /** Reads the stat; undefined if the znode does not exist. */
  exists(path: string, options?: { watch?: false }): Promise<Stat | undefined>;
  async exists(path: string, options?: { watch?: boolean }): Promise<Stat | undefined | Existence> {
    return this.#read('exists', path, options, (stat, watch) => (watch ? { stat, watch } : stat));
  }

  /** Reads the names of the children, in no order, and the stat; watches for the next creation or deletion of a child. */
  children(
    path: string,
    options: { watch: true },
  ): Promise<{ children: string[]; stat: Stat; watch: Watch }>;
  /** Reads the names of the children, in no order, and the stat of the znode. */
  children(path: string, options?: { watch?: false }): Promise<{ children: string[]; stat: Stat }>;
  async children(path: string, options?: { watch?: boolean }): Promise<Listing> {
    return this.#read('children', path, options, (listing, watch) =>
      watch ? { ...listing, watch } : listing,
    );
  }

  /**
   * Adds a watch that is not removed when it fires: for all changes of a znode and of its list of children, or with
   * `recursive` for the creation, change and deletion of the znode and of all znodes below it. The znode need not exist.
   *
   * The listener is called with each event, possibly before the promise resolves. The event `session` means that events
   * may have been missed, because the client reconnected or the session ended. It is the last one: add the watch again,
   * and read again.
   *
   * Rejects with a NodeError of the code UNIMPLEMENTED with `transport: 'native'`, and if the server is older than
   * ZooKeeper 3.6, which also breaks the connection. Use one-time watches then. All persistent watches of a session on one
   * path must have the same `recursive` (BadOptionError).
   *
   * Counterpart of `addWatch` in ZooKeeper's client.
   *
   * @param options `recursive`: default false
   */
  async addWatch(
    path: string,
    listener: (notification: WatchNotification) => void,
    options: { recursive?: boolean | undefined } = {},
  ): Promise<PersistentWatch> {
    const { recursive = false } = checkOptions(options, { recursive: BOOLEAN });
    checkFunction(listener, 'listener');
    const request = {
      kind: 'addWatch',
      path: checkRequest(this.#chroot, path),
      recursive,
    } as const;
    // A server that does not know the request ends the connection after its reply, so it is asked once.
    this.#lacksAddWatch ||= this.connected && this.#serverKind !== 'zookeeper';
    if (this.#lacksAddWatch) throw replyError(ErrorCode.unimplemented, operationOf(request), path);
    const { add, end } = this.watches.requestPersistent(request.path, recursive);
    try {
      return await this.request(request, path, () =>
        add(({ event, path: changed }) => listener({ event, path: this.#relative(changed) })),
      );
    } finally {
      end();
    }
  }

  /** Makes later reads see everything that any client wrote before this call. */
  async sync(path: string): Promise<void> {
    return this.request({ kind: 'sync', path: checkRequest(this.#chroot, path) }, path);
  }

  /**
   * Replaces the ACL of a znode.
   *
   * @param version the expected version of the ACL (`Stat.aversion`); default -1: any
   */
  async setAcl(path: string, acl: Acl[], version = -1): Promise<void> {
    const full = checkRequest(this.#chroot, path);
    const entries = checkAcl(acl);
    checkVersion(version);
    return this.request({ kind: 'setAcl', path: full, acl: entries, version }, path);
  }

  /**
   * Carries out all operations in their order, or none of them. Resolves to one result for each operation. The NodeError
   * or NotAuthorizedError of an operation that the server refused has the `index` of that operation. The operations must
   * fit into one request, about 1 MB.
   *
   * Rejects with a NodeError of the code UNIMPLEMENTED with `transport: 'native'`.
   *
   * Counterpart of Curator's `client.transaction().forOperations()`.
   */
  transaction<const T extends readonly TransactionOperation[]>(
    operations: T,
  ): Promise<TransactionResults<T>> {
    return this.guardedTransaction(operations, []);
  }

  /**
   * As `transaction`, if some znodes exist. The NodeError of one that does not has a negative index.
   *
   * @param guards the paths of these znodes
   * @internal
   */
  async guardedTransaction<const T extends readonly TransactionOperation[]>(
    operations: T,
    guards: readonly string[],
  ): Promise<TransactionResults<T>> {
    const all = checkTransaction(operations, guards, this.#settings);
    all.forEach((each, index) => {
      if (each.kind === 'create') this.#assertSupported(each, index - guards.length);
    });
    const firstPath = this.#relative(all[0]!.path);
    const outcome = await this.request({ kind: 'multi', operations: all }, firstPath);
    if ('failed' in outcome) {
      const failed = all[outcome.failed]!;
      const index = outcome.failed - guards.length;
      throw replyError(outcome.code, operationOf(failed), this.#relative(failed.path), index);
    }
    const results = outcome.results.map((result) =>
      typeof result === 'string' ? this.#relative(result) : result,
    );
    return results.slice(guards.length) as TransactionResults<T>;
  }

  /**
   * Creates an ephemeral sequential znode, and lists its parent behind it, in one round trip. For a lock that is free,
   * one callback costs less than the promises of two operations.
   *
   * @param name the name of the znode without its sequence number
   * @param done called once with the error of the create, or the path of the znode and the listing, if it succeeded
   * @internal
   */
  createAndList(parent: string, name: string, data: Uint8Array, done: CreatedAndListed): void {
    let create: RequestOf<'create'>;
    try {
      const content = checkData(data);
      const full = checkRequest(this.#chroot, `${parent}/${name}`, content, this.#aclBytes);
      create = this.#createRequest(full, content, CreateFlag.ephemeralSequential);
    } catch (error) {
      return void setImmediate(done, error as BadOptionError);
    }
    let replies = 0;
    let failure: CoordinationError | undefined;
    let created: string | undefined;
    let listed: Listing | undefined;
    const transport = this.#begin(create, parent, done);
    if (!transport) return;
    const onReply = () => {
      if (++replies === 2 && this.#pending.delete(done)) done(failure, created, listed);
    };
    const onCreated = this.deadline.extendedBy<string>((code, result) => {
      if (code === ErrorCode.ok) created = result.slice(this.#chroot.length);
      else failure = replyError(code, 'create', parent);
      onReply();
    });
    const list: RequestOf<'children'> = { kind: 'children', path: this.#chroot + parent };
    const onListed: Reply<Listing> = (code, listing) => {
      if (code === ErrorCode.ok) listed = listing;
      onReply();
    };
    if (!transport.request(create, onCreated)) this.#rejectUnsent(create, parent, done);
    // If the listing was not sent, the reply to the create still counts.
    else if (!transport.request(list, onListed)) onReply();
  }

  /**
   * Deletes an ephemeral znode of this session, even if the connection breaks: then right after the reconnection, before
   * any later create, or with the end of the session. Resolves when the server has replied or the delete is left to
   * the reconnection. Rejects only for an invalid path. Counterpart of Curator's guaranteed delete.
   */
  guaranteedDelete(path: string): Promise<void> {
    let full: string;
    try {
      full = checkRequest(this.#chroot, path);
    } catch (error) {
      const refused = Promise.reject(error);
      // Recipes drop the promise. No path that a server has sent may end the process.
      refused.catch(() => {});
      return refused;
    }
    return this.alive ? this.#sendDelete(full) : Promise.resolve();
  }

  /**
   * Creates one container, or a persistent znode. On servers other than Apache ZooKeeper, which may not support containers,
   * it is always a persistent znode.
   *
   * @param full with the chroot, which may be missing too
   * @internal
   */
  createContainer(full: string, mode: 'container' | 'persistent'): Promise<string> {
    const flags = checkMode(this.#serverKind === 'zookeeper' ? mode : 'persistent');
    return this.request(this.#createRequest(full, NO_DATA, flags));
  }

  /**
   * Makes one attempt of a request.
   *
   * @param path for errors; default: that of the request, with the chroot
   * @param convert converts the result before any later event is handled; default: returns it unchanged
   * @internal
   */
  request<K extends RequestKind, R = ResultOf<K>>(
    request: RequestOf<K>,
    path = 'path' in request ? request.path : '/',
    convert: (result: ResultOf<K>) => R = (result) => result as never,
  ): Promise<R> {
    return new Promise((resolve, reject) => {
      const transport = this.#begin(request, path, reject);
      if (!transport) return;
      const settle: Reply<ResultOf<K>> = (code, result) => {
        if (!this.#pending.delete(reject)) return;
        // The server also sets a watch on a znode that does not exist.
        if (code === ErrorCode.ok || (code === ErrorCode.noNode && request.kind === 'exists')) {
          try {
            return resolve(convert(code === ErrorCode.ok ? result : (undefined as ResultOf<K>)));
          } catch (error) {
            return reject(error as Error);
          }
        }
        if (request.kind === 'addWatch') this.#lacksAddWatch = code === ErrorCode.unimplemented;
        reject(replyError(code, operationOf(request), path));
      };
      const isRead = READS.has(request.kind);
      const reply = isRead ? settle : this.deadline.extendedBy(settle);
      if (!transport.request(request, reply)) this.#rejectUnsent(request, path, reject);
    });
  }

  /**
   * Not a getter, because `util.inspect` with the option `getters` would print the password of the session.
   *
   * @internal
   */
  credentials(): Credentials | undefined {
    return this.#credentials;
  }

  /** Returns the listener for one attempt to connect this session. @internal */
  listener(): TransportListener {
    return {
      onWatch: (event, path) => this.watches.fire(event, path),
      onDown: (reason, violation) =>
        this.#onDown(
          reason,
          violation &&
            `closed its connection to ${this.#state.transport?.server}, because it got ${violation.message}`,
        ),
    };
  }

  /**
   * Adopts a new connection. Resolves once a server has replied on it.
   *
   * @throws ConnectionError, SessionExpiredError, ShuttingDownError, or the signal's reason
   * @internal
   */
  attach({ transport, serverKind, startedAt }: Connection, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const fail = (reason: unknown) => {
        signal.removeEventListener('abort', abort);
        transport.destroy();
        reject(reason);
      };
      const abort = () => fail(signal.reason);
      if (signal.aborted) return abort();
      if (this.#state.end) return fail(this.#state.end);
      signal.addEventListener('abort', abort, { once: true });

      this.#credentials ??= transport.credentials;
      this.#serverKind = serverKind;
      // After a restart the servers know the timeout of the first connection only.
      this.#timeout = Math.min(this.#timeout || Infinity, transport.timeout);
      this.deadline.setSessionTimeout(this.#timeout);
      // The server accepted the session after that instant.
      this.deadline.extend(startedAt);
      const sentAt = instant();
      // The new server may lag behind the session, and the native client does not notice it: sync before any read.
      const sent = transport.request({ kind: 'sync', path: '/' }, (code) => {
        if (signal.aborted) return;
        if (this.#state.end) return fail(this.#state.end);
        if (code !== ErrorCode.ok) return fail(attachmentError(code, 'sync', '/'));
        signal.removeEventListener('abort', abort);
        this.deadline.extend(sentAt);
        this.#adopt(transport);
        resolve();
      });
      if (!sent) fail(new ConnectionError('the connection broke right after it was established'));
    });
  }

  /** Ends the session after the ensemble has ended it. @internal */
  expire(reason: SessionExpiredError): void {
    this.#finish(reason, true);
  }

  /**
   * Closes the session and rejects all pending requests at once. Resolves to whether the ensemble has confirmed the
   * end, the server did not reply, there was no connection, or the session was lost before without a confirmation.
   *
   * @param limit milliseconds to wait for a server that does not reply
   * @internal
   */
  async shutDown(
    reason: ShuttingDownError,
    limit: number,
  ): Promise<'confirmed' | 'unanswered' | 'disconnected' | 'lost'> {
    const { transport, end, confirmed } = this.#state;
    if (end) return confirmed ? 'confirmed' : 'lost';
    // Otherwise the connection would be dropped.
    this.#state = { name: 'suspended' };
    this.#finish(reason, true);
    if (!transport) return 'disconnected';
    // close() may block the event loop until the server replies, so make sure first that it does.
    if (transport.promptClose || (await repliesWithin(limit, transport))) {
      if (await transport.close()) return 'confirmed';
    }
    transport.destroy();
    return 'unanswered';
  }

  #relative(full: string): string {
    return full.slice(this.#chroot.length) || '/';
  }

  #createRequest(path: string, data: Buffer, flags: number, ttl?: number): RequestOf<'create'> {
    return { kind: 'create', path, data, flags, ttl, acl: this.#settings.acl };
  }

  /**
   * Refuses a container or a znode with a TTL on servers other than Apache ZooKeeper before the request is sent. A ClickHouse
   * Keeper that does not support such a znode would close the connection, and the session would end with it.
   *
   * @throws NodeError with the code UNIMPLEMENTED
   */
  #assertSupported({ path, flags, ttl }: RequestOf<'create'>, index?: number): void {
    if (this.#serverKind === undefined || this.#serverKind === 'zookeeper') return;
    if (ttl === undefined && flags !== CreateFlag.container) return;
    const operation = ttl === undefined ? CREATE_CONTAINER : CREATE_TTL;
    throw replyError(ErrorCode.unimplemented, operation, this.#relative(path), index);
  }

  #read<K extends 'get' | 'exists' | 'children', R>(
    kind: K,
    path: string,
    options: { watch?: boolean } = {},
    convert: (result: ResultOf<K>, watch: Watch | undefined) => R,
  ): Promise<R> {
    const { watch = false } = checkOptions(options, READ_RULES);
    const full = checkRequest(this.#chroot, path);
    const watched = kind === 'children' ? 'children' : 'data';
    const answered = watch && this.watches.addRequest(watched, full);
    const covered = watch && this.watches.covers(watched, full);
    const request = { kind, path: full, watch: watch && !covered } as RequestOf<K>;
    const result = this.request(request, path, (read) =>
      convert(read, watch ? this.watches.add(watched, full, covered) : undefined),
    );
    return answered ? result.finally(answered) : result;
  }

  /** Returns the connection for a request. Without one, or after the deadline, `fail` is called with the reason. */
  #begin(request: Request, path: string, fail: OnFailure): Transport | undefined {
    if (!this.alive) return void fail(this.#state.end);
    this.#pending.set(fail, true);
    const { transport } = this.#state;
    if (!transport) this.#rejectUnsent(request, path, fail);
    return transport;
  }

  /**
   * Rejects a request that was not sent, in the next turn of the event loop. A caller that retries at once would otherwise
   * keep that turn, in which the client learns of a broken connection, from ever running.
   */
  #rejectUnsent(request: Request, path: string, fail: OnFailure): void {
    if (!this.#pending.delete(fail)) return;
    const message = `${operationOf(request)} ${path}: not connected to any server`;
    setImmediate(fail, new ConnectionError(message));
  }

  #sendDelete(path: string): Promise<void> {
    this.#deletes.set(path, true);
    return new Promise((resolve) => {
      const reply = this.deadline.extendedBy<void>((code) => {
        // Any answer is final: a node that the server refuses to delete ends with the session.
        const known = isAnswer(code) && this.#deletes.delete(path);
        if (known && code !== ErrorCode.ok && code !== ErrorCode.noNode)
          this.#observer.deleteRefused(path, code);
        resolve();
      });
      const sent = this.#state.transport?.request({ kind: 'delete', path, version: -1 }, reply);
      if (!sent) resolve();
    });
  }

  #adopt(transport: Transport): void {
    this.#state = { name: 'connected', transport };
    // A server that grants a long timeout could otherwise stall for as long.
    this.#keepAlive.start(Math.min(this.#timeout, this.#settings.sessionTimeout));
    // First the deletes: they must precede any create that the reconnection permits, and any read that a
    // fired watch causes.
    for (const path of this.#deletes.keys()) void this.#sendDelete(path);
    this.#observer.attached();
    this.watches.fireAll();
  }

  #onDown(
    reason: DownReason,
    problem = `lost its connection to ${this.#state.transport?.server}`,
  ): void {
    const { transport } = this.#state;
    // Without a transport, attach() is still waiting for its reply, and fails by itself.
    if (!transport) return;
    this.#credentials = transport.credentials;
    if (reason === 'expired') {
      return this.expire(new SessionExpiredError('the session was ended by the ensemble'));
    }
    const error =
      reason === 'unauthorized'
        ? new NotAuthorizedError('the ensemble refused the credentials in auth')
        : new ConnectionError(`the session ${problem}`);
    const isDoubt = this.#settings.policy === 'standard';
    this.#state = isDoubt ? { name: 'suspended', doubt: error } : { name: 'suspended' };
    if (isDoubt) this.#untrusted.emitOnce(error);
    this.#observer.detached(error);
  }

  /** Drops a connection whose server does not reply: another server may. */
  #dropStalled(): void {
    const { transport } = this.#state;
    if (!transport) return;
    const problem = `gets no reply from ${transport.server}`;
    const silence = new ConnectionError(`the session ${problem}`, { maybeApplied: true });
    const pending = this.#pending.keys();
    this.#pending.clear();
    transport.destroy();
    this.#onDown('disconnected', problem);
    for (const fail of pending) fail(silence);
  }

  /** Ends the session. */
  #finish(reason: SessionEnd, confirmed: boolean): void {
    const { transport, end } = this.#state;
    if (end) return;
    this.#keepAlive.stop();
    // Leases end first: no other code may run while one of them still appears held.
    this.#state = { name: 'over', doubt: reason, end: reason, confirmed };
    this.#lost.emitOnce(reason);
    this.#untrusted.emitOnce(reason);
    transport?.destroy();
    this.#deletes.clear();
    const pending = this.#pending.keys();
    this.#pending.clear();
    for (const fail of pending) fail(reason);
    this.#observer.ended(reason, confirmed);
    this.watches.fireAll();
  }
}

/** Resolves to whether the server replies to a read within `limit` milliseconds. */
function repliesWithin(limit: number, transport: Transport): Promise<boolean> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, limit, false);
    const settle = (code: number) => {
      clearTimeout(timer);
      resolve(isAnswer(code));
    };
    if (!transport.request({ kind: 'exists', path: '/' }, settle)) settle(ErrorCode.connectionLoss);
  });
}
