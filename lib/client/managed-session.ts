import { ErrorCode } from '../protocol/index.js';
import type { Connection } from './connector.js';
import {
  ConnectionError,
  type CoordinationError,
  NotAuthorizedError,
  SessionExpiredError,
  type ShuttingDownError,
} from './errors.js';
import { GuaranteedDeletes } from './guaranteed-deletes.js';
import { repliesWithin, KeepAlive } from './keepalive.js';
import { Listeners } from './listeners.js';
import type { ConnectionPolicy } from './options.js';
import { type OnFailure, PendingRequests, rejectSoon } from './pending-requests.js';
import { attachmentError, replyError } from './reply-errors.js';
import type { ServerKind } from './server-kind.js';
import { instant, SessionDeadline } from './session-deadline.js';
import type {
  Credentials,
  DownReason,
  Reply,
  Transport,
  TransportListener,
} from './transport/transport.js';
import { WatchRegistry } from './watch-registry.js';

type SessionEnd = SessionExpiredError | ShuttingDownError;

/** Receives the changes of a session's connection: synchronously, but never inside a callback of the native client. */
export interface SessionObserver {
  attached(): void;
  detached(reason: CoordinationError): void;
  /** @param confirmed whether the ensemble knows that the session is over */
  ended(reason: SessionEnd, confirmed: boolean): void;
  deleteRefused(path: string, code: number): void;
}

/**
 * The life cycle of a session: the connections that carry it one after the other, its deadline, whether it can be
 * trusted, and its pending requests. LiveSession adds the operations.
 */
export abstract class ManagedSession {
  protected readonly watches = new WatchRegistry((kind, path) => {
    // Without this request the watch remains on the server until it fires.
    if (this.serverKind === 'zookeeper') this.#transport?.removeWatch(path, kind, () => {});
  });
  readonly deadline = new SessionDeadline(instant());
  readonly #keepAlive = new KeepAlive(this.deadline, {
    isAlive: () => this.alive,
    transport: () => this.#transport,
    stalled: () => this.#destroyStalled(),
  });
  protected readonly deletes = new GuaranteedDeletes(this.deadline, (path, code) =>
    this.observer.deleteRefused(path, code),
  );
  readonly #pending = new PendingRequests();
  readonly #lost = new Listeners<SessionEnd>();
  readonly #untrusted = new Listeners<CoordinationError>();
  #transport: Transport | undefined;
  #credentials: Credentials | undefined;
  #serverKind: ServerKind | undefined;
  #timeout = 0;
  /** Why the session is over. */
  #end: SessionEnd | undefined;
  /** Why the session cannot be trusted: `#end`, or a suspended connection under the policy `'standard'`. */
  #doubt: CoordinationError | undefined;

  /** @param chroot empty, or an absolute path */
  constructor(
    protected readonly chroot: string,
    private readonly policy: ConnectionPolicy,
    private readonly requestedTimeout: number,
    private readonly observer: SessionObserver,
  ) {}

  /** Not a getter, because `util.inspect` with the option `getters` would print the password of the session. */
  credentials(): Credentials | undefined {
    return this.#credentials;
  }

  get id(): string {
    return this.#credentials?.id ?? '0';
  }

  get timeout(): number {
    return this.#timeout;
  }

  get alive(): boolean {
    if (this.#end) return false;
    if (this.deadline.left > 0) return true;
    const silence = (this.deadline.age / 1000).toFixed(1);
    const message = `the session is lost: the leader has answered no request of the last ${silence} s, and the session timeout is ${this.#timeout / 1000} s`;
    this.#finish(new SessionExpiredError(message), false);
    return false;
  }

  get serverKind(): ServerKind | undefined {
    return this.#serverKind;
  }

  get connected(): boolean {
    return this.#transport !== undefined;
  }

  /** Not a getter, for the same reason: a transport has the credentials of its session. */
  protected currentTransport(): Transport | undefined {
    return this.#transport;
  }

  get trusted(): boolean {
    return this.alive && (this.policy === 'session' || this.connected);
  }

  onLost(listener: (reason: SessionEnd) => void): () => void {
    return this.#end ? this.#lost.soon(listener, this.#end) : this.#lost.add(listener);
  }

  onUntrusted(listener: (reason: CoordinationError) => void): () => void {
    const doubt = this.#doubt;
    return doubt ? this.#untrusted.soon(listener, doubt) : this.#untrusted.add(listener);
  }

  /** Returns the listener for one attempt to connect this session. */
  listener(): TransportListener {
    return {
      onWatch: (event, path) => this.watches.fire(event, path),
      onDown: (reason, violation) =>
        this.#onDown(
          reason,
          violation &&
            `closed its connection to ${this.#transport?.server}, because it got ${violation.message}`,
        ),
    };
  }

  /**
   * Adopts a new connection. Resolves once a server has replied on it.
   *
   * @throws ConnectionError, SessionExpiredError, ShuttingDownError, or the signal's reason
   */
  attach({ transport, serverKind, startedAt }: Connection, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const fail = (reason: unknown) => {
        transport.destroy();
        reject(reason);
      };
      const abort = () => fail(signal.reason);
      if (signal.aborted) return abort();
      if (this.#end) return fail(this.#end);
      signal.addEventListener('abort', abort, { once: true });

      this.#credentials ??= transport.credentials;
      this.#serverKind = serverKind;
      this.#timeout = transport.timeout;
      this.deadline.setSessionTimeout(transport.timeout);
      // The server accepted the session after that instant.
      this.deadline.extend(startedAt);
      const sentAt = instant();
      // The new server may lag behind the session, and the native client does not notice it: sync before any read.
      const sent = transport.sync('/', (code) => {
        if (signal.aborted) return;
        if (this.#end) return fail(this.#end);
        if (code !== ErrorCode.ok) return fail(attachmentError(code, 'sync', '/'));
        signal.removeEventListener('abort', abort);
        this.deadline.extend(sentAt);
        this.#adopt(transport);
        resolve();
      });
      if (!sent) fail(new ConnectionError('the connection broke right after it was established'));
    });
  }

  /** Ends the session after the ensemble has ended it. */
  expire(reason: SessionExpiredError): void {
    this.#finish(reason, true);
  }

  /**
   * Closes the session and rejects all pending requests at once. Resolves to whether the ensemble has
   * confirmed it, the server did not reply, or there was no connection.
   *
   * @param limit milliseconds to wait for a server that does not reply
   */
  async shutDown(
    reason: ShuttingDownError,
    limit: number,
  ): Promise<'confirmed' | 'unanswered' | 'disconnected'> {
    if (this.#end) return 'confirmed';
    const transport = this.#transport;
    this.#transport = undefined;
    this.#finish(reason, true);
    if (!transport) return 'disconnected';
    // close() may block the event loop until the server replies, so make sure first that it does.
    if (transport.promptClose || (await repliesWithin(limit, transport))) {
      if (await transport.close()) return 'confirmed';
    }
    transport.destroy();
    return 'unanswered';
  }

  /**
   * Makes one attempt of a request.
   *
   * @param answeredBy only an answer by the leader extends the deadline of the session
   * @param convert converts the result before any later event is handled; default: returns it unchanged
   */
  protected request<T, R>(
    operation: string,
    path: string,
    answeredBy: 'leader' | 'any server',
    send: (transport: Transport, reply: Reply<T>) => boolean,
    convert: (result: T) => R = (result) => result as never,
  ): Promise<R> {
    return new Promise((resolve, reject) => {
      const transport = this.addPending(operation, path, reject);
      if (!transport) return;
      const settle: Reply<T> = (code, result) => {
        if (!this.removePending(reject)) return;
        if (code === ErrorCode.ok) resolve(convert(result!));
        else reject(replyError(code, operation, path));
      };
      const reply = answeredBy === 'leader' ? this.deadline.extendedBy(settle) : settle;
      if (!send(transport, reply) && this.removePending(reject))
        rejectSoon(operation, path, reject);
    });
  }

  /** Returns the connection for a request. Without one, or after the deadline, `fail` is called with the reason. */
  protected addPending(operation: string, path: string, fail: OnFailure): Transport | undefined {
    if (!this.alive) return void fail(this.#end);
    if (this.#transport) this.#pending.add(fail);
    else rejectSoon(operation, path, fail);
    return this.#transport;
  }

  /** Returns false if the end of the session or of its connection has called `fail` already. */
  protected removePending(fail: OnFailure): boolean {
    return this.#pending.delete(fail);
  }

  #adopt(transport: Transport): void {
    this.#transport = transport;
    this.#doubt = this.#end;
    // A server that grants a long timeout could otherwise stall for as long.
    this.#keepAlive.start(Math.min(transport.timeout, this.requestedTimeout));
    // First the deletes: they must precede any create that the reconnection permits, and any read that a
    // fired watch causes.
    this.deletes.sendAll(transport);
    this.observer.attached();
    this.watches.fireAll();
  }

  #onDown(reason: DownReason, problem = `lost its connection to ${this.#transport?.server}`): void {
    // Without a transport, attach() is still waiting for its reply, and fails by itself.
    if (!this.#transport) return;
    this.#credentials = this.#transport.credentials;
    this.#transport = undefined;
    const ended = 'the session was ended by the ensemble';
    if (reason === 'expired') return this.expire(new SessionExpiredError(ended));
    const error =
      reason === 'unauthorized'
        ? new NotAuthorizedError('the ensemble refused the credentials in auth')
        : new ConnectionError(`the session ${problem}`);
    if (this.policy === 'standard') this.#distrust(error);
    this.observer.detached(error);
  }

  /** Drops a connection whose server does not reply: another server may. */
  #destroyStalled(): void {
    const transport = this.#transport;
    if (!transport) return;
    const problem = `gets no reply from ${transport.server}`;
    const silence = new ConnectionError(`the session ${problem}`, { maybeApplied: true });
    const pending = this.#pending.takeAll();
    transport.destroy();
    this.#onDown('disconnected', problem);
    for (const fail of pending) fail(silence);
  }

  #distrust(reason: CoordinationError): void {
    this.#doubt = reason;
    this.#untrusted.emitOnce(reason);
  }

  /** Ends the session. The only place that sets `#end`. */
  #finish(reason: SessionEnd, confirmed: boolean): void {
    if (this.#end) return;
    this.#keepAlive.stop();
    // Leases end first: no other code may run while one of them still appears held.
    this.#end = reason;
    this.#lost.emitOnce(reason);
    this.#distrust(reason);
    const transport = this.#transport;
    this.#transport = undefined;
    transport?.destroy();
    this.deletes.clear();
    const pending = this.#pending.takeAll();
    for (const fail of pending) fail(reason);
    this.observer.ended(reason, confirmed);
    this.watches.fireAll();
  }
}
