import { joinPath } from './connect-string.js';
import { Discards } from './guaranteed-deletes.js';
import {
  ConnectionError,
  NodeError,
  NotAuthorizedError,
  SessionExpiredError,
  type CoordinationError,
  type ShuttingDownError,
} from './errors.js';
import { instant, LostClock, type Instant } from './keepalive.js';
import type { ConnectionPolicy } from './options.js';
import { isAnswer, replyError } from './reply-errors.js';
import {
  type Capabilities,
  Code,
  type Credentials,
  type DownReason,
  type Reply,
  type Transport,
  type TransportListener,
  type WatchKind,
} from './transport/transport.js';
import { Trust, type SessionEnd } from './session-trust.js';
import { answersWithin, Vigil } from './keepalive.js';
import { WatchRegistry } from './watch-registry.js';

/** What happens to a session, for the keeper of sessions. Called synchronously, never by the native client. */
interface SessionObserver {
  attached(): void;
  detached(reason: CoordinationError): void;
  /** `told`: the ensemble knows that the session is over. */
  ended(reason: SessionEnd, told: boolean): void;
}

interface SessionOptions {
  readonly chroot: string;
  readonly policy: ConnectionPolicy;
  readonly observer: SessionObserver;
}

/**
 * The life of a session: the transports that carry it one after the other, the clock that says when it
 * is lost, and the one way a request takes. Its operations are in LiveSession.
 */
export abstract class SessionLife {
  protected readonly watches = new WatchRegistry((kind, path) => this.#unwatch(kind, path));
  readonly #options: SessionOptions;
  readonly #clock = new LostClock(instant());
  readonly #trust = new Trust();
  readonly #vigil = new Vigil(this.#clock, {
    isAlive: () => this.alive,
    transport: () => this.#transport,
    stalled: () => this.#leaveStalled(),
  });
  readonly #discards = new Discards(this.#clock);
  /** What rejects the requests in flight. */
  readonly #pending = new Set<(reason: CoordinationError) => void>();
  #transport: Transport | undefined;
  #credentials: Credentials | undefined;
  #timeout = 0;

  constructor(options: SessionOptions) {
    this.#options = options;
  }

  /** Undefined until the first connection. */
  get credentials(): Credentials | undefined {
    return this.#credentials;
  }

  get id(): string {
    return this.#credentials?.id ?? '0';
  }

  get timeout(): number {
    return this.#timeout;
  }

  get alive(): boolean {
    return this.#aliveAt(instant());
  }

  protected get capabilities(): Capabilities | undefined {
    return this.#transport?.capabilities;
  }

  get connected(): boolean {
    return this.#transport !== undefined;
  }

  get trusted(): boolean {
    return this.alive && (this.#options.policy === 'session' || this.connected);
  }

  onLost(listener: (reason: SessionEnd) => void): () => void {
    return this.#trust.onLost(listener);
  }

  onUntrusted(listener: (reason: CoordinationError) => void): () => void {
    return this.#trust.onUntrusted(listener);
  }

  /** The listener of one connection attempt for this session. */
  listener(): TransportListener {
    return {
      onWatch: (event, path) => this.watches.fire(event, path),
      onDown: (reason) => this.#onDown(reason),
    };
  }

  /**
   * Takes a new connection over, and resolves once a server has answered on it.
   *
   * @param startedAt from before the connection's handshake left
   * @throws ConnectionError, SessionExpiredError, ShuttingDownError, or the signal's reason
   */
  attach(transport: Transport, startedAt: Instant, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const fail = (reason: unknown) => {
        signal.removeEventListener('abort', abort);
        transport.abandon();
        reject(reason);
      };
      const abort = () => fail(signal.reason);
      if (signal.aborted) return abort();
      if (this.#trust.end) return fail(this.#trust.end);
      signal.addEventListener('abort', abort, { once: true });

      this.#credentials ??= transport.credentials;
      this.#timeout = transport.timeout;
      this.#clock.setTimeout(transport.timeout);
      // The server accepted the session after that moment.
      this.#clock.answered(startedAt);
      const sentAt = instant();
      // The new connection may lead to a server that lags behind the last one, and the native client
      // forgot which transaction it saw last: nothing may be read before this.
      const sent = transport.sync('/', (code) => {
        if (signal.aborted) return;
        if (this.#trust.end) return fail(this.#trust.end);
        if (code !== Code.Ok) {
          const cause = replyError(code, 'sync', '/');
          // Another server may well do it.
          return fail(
            cause instanceof NodeError ? new ConnectionError(cause.message, { cause }) : cause,
          );
        }
        signal.removeEventListener('abort', abort);
        this.#clock.answered(sentAt);
        this.#adopt(transport);
        resolve();
      });
      if (!sent) fail(new ConnectionError('the connection broke as soon as it stood'));
    });
  }

  /** The ensemble ended the session. */
  expire(reason: SessionExpiredError): void {
    this.#finish(reason, true);
  }

  /**
   * Ends the session from this side; everything pending is rejected at once. Resolves with whether the
   * ensemble was told: yes, or its server did not answer, or there was none to tell.
   *
   * @param limit milliseconds to wait for a server that does not answer
   */
  async shutDown(
    reason: ShuttingDownError,
    limit: number,
  ): Promise<'told' | 'unanswered' | 'away'> {
    if (this.#trust.end) return 'told';
    const transport = this.#transport;
    this.#transport = undefined;
    this.#finish(reason, true);
    if (!transport) return 'away';
    // Where close() may block the event loop until the server answers, ask first whether it does. The last
    // discards are answered before this is.
    if (transport.capabilities.promptClose || (await answersWithin(limit, transport))) {
      if (await transport.close()) return 'told';
    }
    transport.abandon();
    return 'unanswered';
  }

  protected fullPath(path: string): string {
    return joinPath(this.#options.chroot, path);
  }

  protected relativePath(full: string): string {
    return full.slice(this.#options.chroot.length) || '/';
  }

  /** One try of a request. `convert` runs before any event that the server sent after the answer. */
  protected request<T, R>(
    operation: string,
    path: string,
    send: (transport: Transport, reply: Reply<T>) => boolean,
    convert: (result: T) => R,
  ): Promise<R> {
    return new Promise((resolve, reject) => {
      const sentAt = instant();
      // Nothing is sent for a session that ran out of time.
      if (!this.#aliveAt(sentAt)) return reject(this.#trust.end);
      const transport = this.#transport;
      if (transport) {
        this.#pending.add(reject);
        const sent = send(transport, (code, result) => {
          // Not pending any more: the end of the session rejected it.
          if (!this.#pending.delete(reject)) return;
          if (isAnswer(code)) this.#clock.answered(sentAt);
          if (code === Code.Ok) resolve(convert(result));
          else reject(replyError(code, operation, path));
        });
        if (sent || !this.#pending.delete(reject)) return;
      }
      // In the next turn, where this client hears of a broken connection: whoever asked again at once
      // would find all as it was, ask again, and keep that turn from coming until the session is lost.
      setImmediate(
        reject,
        new ConnectionError(`${operation} ${path}: not connected to any server`),
      );
    });
  }

  protected discardFully(full: string): Promise<void> {
    return this.alive ? this.#discards.add(full, this.#transport) : Promise.resolve();
  }

  #aliveAt(now: Instant): boolean {
    if (this.#trust.end) return false;
    if (!this.#credentials || this.#clock.leftAt(now) > 0) return true;
    const silence = (this.#clock.age / 1000).toFixed(1);
    const message = `session ${this.id} is lost: nothing sent in the last ${silence} s was answered, its timeout is ${this.#timeout / 1000} s`;
    this.#finish(new SessionExpiredError(message), false);
    return false;
  }

  /** Nobody waits for the watch any more. */
  #unwatch(kind: WatchKind, full: string): void {
    this.#transport?.removeWatch?.(full, kind, () => {});
  }

  #adopt(transport: Transport): void {
    this.#transport = transport;
    this.#trust.restore();
    this.#vigil.start(transport.timeout);
    // In this order, and before anybody else can send: a node that must go is gone before a create that
    // the reconnection lets through, and before its owner looks again because of a watch.
    this.#discards.sendAll(transport);
    this.#options.observer.attached();
    this.watches.fireAll();
  }

  #onDown(reason: DownReason): void {
    // Without a transport, attach() is still waiting for its own answer and fails by that.
    if (!this.#transport) return;
    this.#credentials = this.#transport.credentials;
    this.#transport = undefined;
    if (reason === 'expired') {
      return this.expire(new SessionExpiredError(`session ${this.id} was ended by the ensemble`));
    }
    const error =
      reason === 'unauthorized'
        ? new NotAuthorizedError('the ensemble refused the credentials in auth')
        : new ConnectionError('the connection is lost');
    if (this.#options.policy === 'standard') this.#trust.doubt(error);
    this.#options.observer.detached(error);
  }

  /** Gives up a connection whose server took requests and answers none: perhaps another server does. */
  #leaveStalled(): void {
    const transport = this.#transport;
    if (!transport) return;
    const silence = new ConnectionError('the server does not answer', { maybeApplied: true });
    const pending = [...this.#pending];
    this.#pending.clear();
    transport.abandon();
    this.#onDown('disconnected');
    for (const reject of pending) reject(silence);
  }

  /** The one place where a session ends. */
  #finish(reason: SessionEnd, told: boolean): void {
    if (this.#trust.end) return;
    this.#vigil.stop();
    // Leases first: nothing that follows may run while one of them still says it is held.
    this.#trust.finish(reason);
    const transport = this.#transport;
    this.#transport = undefined;
    transport?.abandon();
    this.#discards.clear();
    const pending = [...this.#pending];
    this.#pending.clear();
    for (const reject of pending) reject(reason);
    this.#options.observer.ended(reason, told);
    this.watches.fireAll();
  }
}
