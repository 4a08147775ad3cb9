// Fake timers of test runners replace the global `performance`.
import { performance } from 'node:perf_hooks';
import { setMaxListeners } from 'node:events';
import { type ConnectFailure, Connector } from './connector.js';
import {
  ConnectionError,
  SessionExpiredError,
  ShuttingDownError,
  WaitCancelledError,
} from './errors.js';
import { HostProvider } from './hosts.js';
import { detached, Listeners, warn } from './listeners.js';
import { asConnectionError } from './reply-errors.js';
import { Session } from './session.js';
import { SessionFile } from './session-file.js';
import type { NormalizedOptions } from './options.js';
import { elapsed, type Instant, instant } from './session-deadline.js';
import { sleep } from './sleep.js';
import type { Connect, Credentials } from './transport/transport.js';
import type { ConnectionState } from './types.js';

/** Bounds of the pause between two attempts to reconnect, milliseconds. */
const MIN_PAUSE = 10;
const MAX_PAUSE = 5000;
/** The pause after the retry policy has given up, milliseconds: the client still reconnects. */
const PAUSE_AFTER_POLICY = 1000;
/** A connection that breaks sooner is short, milliseconds. */
const MIN_USE = 1000;
/** The number of short connections in a row after which each further one counts as a failed attempt. */
const MAX_SHORT = 5;
/** How long close() waits for a server that does not reply, milliseconds. */
const ANSWER_LIMIT = 1000;
/** How long the client tries to close an orphan session, milliseconds. */
const ORPHAN_LIMIT = 2000;

/** The events of a session. Their effect depends on the state of the connection. */
export type ConnectionEvent = 'attached' | 'detached' | 'lost' | 'closed';

/** All transitions. An event without an entry is ignored, such as `detached` after the session is lost. */
const TRANSITIONS: Readonly<
  Record<ConnectionState, Readonly<Partial<Record<ConnectionEvent, ConnectionState>>>>
> = {
  CONNECTING: { attached: 'CONNECTED', closed: 'CLOSED' },
  CONNECTED: { detached: 'SUSPENDED', lost: 'LOST', closed: 'CLOSED' },
  SUSPENDED: { attached: 'RECONNECTED', lost: 'LOST', closed: 'CLOSED' },
  RECONNECTED: { detached: 'SUSPENDED', lost: 'LOST', closed: 'CLOSED' },
  LOST: { attached: 'CONNECTED', closed: 'CLOSED' },
  CLOSED: {},
};

/**
 * A change of the state of a client's connection, see {@link ZkClient.onState}.
 *
 * @publicApi
 */
export interface StateChange {
  readonly state: ConnectionState;
  /** The id of the session, hexadecimal, if there is one. */
  readonly sessionId: string | undefined;
  /** The cause of the states SUSPENDED, LOST and CLOSED. */
  readonly reason?: Error;
}

/** The state of a client's connection. Counterpart of Curator's ConnectionStateManager. */
export class ConnectionStateMachine {
  /** Changed by apply() only. */
  state: ConnectionState = 'CONNECTING';
  readonly #listeners = new Listeners<StateChange>();

  listen(listener: (change: StateChange) => void): () => void {
    return this.#listeners.add(listener);
  }

  apply(event: ConnectionEvent, sessionId: string | undefined, reason?: Error): void {
    const next = TRANSITIONS[this.state][event];
    if (!next) return;
    this.state = next;
    this.#listeners.emit({ state: next, sessionId, reason });
  }
}

/** Receives failed attempts to connect, and refused deletes. */
interface FailureObserver {
  /** A server refuses to delete a node that was discarded, with this result code. */
  deleteRefused(path: string, code: number): void;
  connectFailed(failure: ConnectFailure): void;
}

/** A session that is over for this client, but perhaps still alive in the ensemble with its ephemeral znodes. */
interface Orphan {
  readonly credentials: Credentials;
  /** When it may be closed, by `performance.now()`. */
  readonly closeAt: number;
}

/** Keeps one session connected, and replaces it by a new one when it is over, until the client is closed. */
export class SessionManager {
  readonly connection = new ConnectionStateMachine();
  readonly #options: NormalizedOptions;
  readonly #hosts: HostProvider;
  readonly #connector: Connector;
  readonly #file: SessionFile | undefined;
  readonly #stopping = new AbortController();
  #orphans: Orphan[] = [];
  readonly #closingOrphans = new Set<Promise<void>>();
  #session: Session | undefined;
  /** Resolves to a session that is being connected for the first time. */
  #establishing: Promise<Session> | undefined;
  #started: Promise<void> | undefined;
  /** Whether it connects until it is stopped: after the first session, or since {@link startInBackground}. */
  #persistent = false;
  #stopped: Promise<void> | undefined;
  #lastFailure: unknown;
  #wake: () => void = () => {};

  constructor(
    options: NormalizedOptions,
    connect: Connect,
    private readonly observer: FailureObserver,
  ) {
    this.#options = options;
    this.#hosts = new HostProvider(options.hosts);
    this.#connector = new Connector(connect, this.#hosts, options);
    this.#file = options.sessionFile ? new SessionFile(options.sessionFile) : undefined;
    // Each waiting caller adds a listener; Node would warn of a leak.
    setMaxListeners(0, this.#stopping.signal);
  }

  /** Aborts with a ShuttingDownError when the client is closed. */
  get stopping(): AbortSignal {
    return this.#stopping.signal;
  }

  /** The current session, connected or not; undefined if there is none. */
  get current(): Session | undefined {
    return this.#session?.alive ? this.#session : undefined;
  }

  /**
   * Resolves when the first session is connected. If the retry policy gives up, it rejects and leaves nothing running,
   * unless the manager was started in the background.
   */
  async start(): Promise<void> {
    this.stopping.throwIfAborted();
    this.#claimFile();
    this.#started ??= detached(() => this.#start());
    if (this.#persistent && this.connection.state === 'CONNECTING') await this.session();
    else await this.#started;
  }

  /**
   * Connects the first session as all later ones: it tries until it is stopped.
   *
   * @throws BadOptionError if the session file cannot be used
   */
  startInBackground(): void {
    this.#claimFile();
    this.#persistent = true;
    this.#started ??= detached(() => this.#start());
    // A start that began before this call may be giving up just now.
    this.#started.catch(() => this.stopping.aborted || this.startInBackground());
  }

  stop(): Promise<void> {
    return (this.#stopped ??= detached(() => this.#stop()));
  }

  /** Resolves to the current session once it is connected; waits as long as the retry policy allows. */
  async session(signal?: AbortSignal): Promise<Session> {
    const since = instant();
    for (let attempt = 1; ; attempt++) {
      this.#stopping.signal.throwIfAborted();
      if (signal?.aborted) throw cancelled(signal);
      const { current } = this;
      if (current?.connected) return current;
      const delay = this.#started && this.#options.retry(attempt, elapsed(since));
      if (delay === undefined) {
        const why = this.#started
          ? ' within the retry policy'
          : ': connect() has not succeeded yet; in a Nest application, use it from onModuleInit on';
        throw new ConnectionError(`no connection to ${this.#hosts.label}${why}`, {
          cause: this.#lastFailure,
        });
      }
      await this.#connectedWithin(delay, signal);
    }
  }

  /**
   * Runs an operation in the current session, and after a connection failure again, as the retry policy allows.
   *
   * @param repeatable whether it may be repeated even if an earlier attempt was applied
   */
  async run<T>(operation: (session: Session) => Promise<T>, repeatable: boolean): Promise<T> {
    const since = instant();
    for (let attempt = 1; ; attempt++) {
      const session = await this.session();
      try {
        return await operation(session);
      } catch (error) {
        const failure = asConnectionError(error);
        if (!failure || (failure.maybeApplied && !repeatable)) throw failure ?? error;
        const delay = this.#options.retry(attempt, elapsed(since));
        if (delay === undefined) throw failure;
        await sleep(delay, { signals: [this.stopping] });
      }
    }
  }

  async #connectedWithin(delay: number, signal: AbortSignal | undefined): Promise<void> {
    try {
      await sleep(delay, {
        signals: [signal, this.stopping],
        until: (wake) =>
          this.connection.listen(({ state }) => {
            if (state === 'CONNECTED' || state === 'RECONNECTED') wake();
          }),
      });
    } catch (error) {
      if (signal?.aborted && !this.stopping.aborted) throw cancelled(signal);
      throw error;
    }
  }

  async #start(): Promise<void> {
    try {
      const session = await this.#establish();
      this.#persistent = true;
      void this.#keep(session);
      if (this.#file) await Promise.all(this.#closingOrphans);
    } catch (error) {
      this.#started = undefined;
      throw error;
    }
  }

  #claimFile(): void {
    const previous = this.#file?.claim();
    if (previous) this.#addOrphan(previous);
  }

  async #stop(): Promise<void> {
    const reason = new ShuttingDownError('the ZooKeeper client was closed');
    const session = this.#session;
    this.connection.apply('closed', session?.id, reason);
    this.#stopping.abort(reason);
    this.#wake();
    const since = instant();
    const outcome = await session?.shutDown(reason, ANSWER_LIMIT);
    // If its server does not reply, another server may close the session; if the connection broke, also the same one.
    const mayTryAgain = this.#hosts.size > 1 || elapsed(since) < ANSWER_LIMIT;
    if (outcome === 'disconnected' || (outcome === 'unanswered' && mayTryAgain)) {
      this.#addOrphan(session!.credentials());
    }
    await this.#establishing?.catch(() => {});
    this.#closeOrphans(Infinity);
    await Promise.all(this.#closingOrphans);
    this.#file?.release(outcome === 'confirmed');
  }

  async #keep(session: Session): Promise<void> {
    let since = instant();
    for (let attempt = 1 - MAX_SHORT; !this.stopping.aborted; attempt++) {
      const attachedAt = instant();
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
        if (!session.alive || !session.connected) resolve();
      });
      if (elapsed(attachedAt) >= MIN_USE) [attempt, since] = [1 - MAX_SHORT, instant()];
      try {
        if (attempt > 0) {
          // A long pause could cost the leases of a session that is still alive.
          const limit = session.alive ? Math.max(1000, session.timeout) / 10 : MAX_PAUSE;
          await sleep(Math.min(this.#pause(attempt, since), limit), {
            signals: [this.stopping],
            ref: true,
          });
        }
        if (session.alive && !session.connected) await this.#reattach(session);
        if (!session.alive) session = await this.#establish();
      } catch (error) {
        if (!this.stopping.aborted) throw error;
      }
    }
  }

  /** Resolves when the session is attached again, or over. */
  async #reattach(session: Session): Promise<void> {
    const over = new AbortController();
    const removeListener = session.onLost(() => over.abort());
    const since = instant();
    try {
      for (let attempt = 1; !over.signal.aborted; attempt++) {
        try {
          return await this.#connect(session, over.signal, () => session.deadline.left);
        } catch (error) {
          if (over.signal.aborted) return;
          if (error instanceof SessionExpiredError) return session.expire(error);
          this.#lastFailure = error;
        }
        // Short, so that the pauses do not use up the session timeout.
        const pause = Math.min(this.#pause(attempt, since), session.timeout / 10);
        this.observer.connectFailed({ error: this.#lastFailure, attempt, pause });
        // It rejects only by the signal that the loop checks.
        await sleep(pause, { signals: [over.signal], ref: true }).catch(() => {});
      }
    } finally {
      removeListener();
    }
  }

  /** Connects a new session. The retry policy limits the attempts, unless `#persistent` is set. */
  #establish(): Promise<Session> {
    return (this.#establishing = this.#tryToEstablish());
  }

  async #tryToEstablish(): Promise<Session> {
    const since = instant();
    let session = this.#newSession();
    try {
      for (let attempt = 1; ; attempt++) {
        try {
          await this.#connect(session, this.stopping, () => Infinity);
          return session;
        } catch (error) {
          this.stopping.throwIfAborted();
          this.#lastFailure = error;
          if (error instanceof SessionExpiredError) session = this.#newSession();
          else if (!this.#persistent && !(error instanceof ConnectionError)) throw error;
          const pause = this.#persistent
            ? this.#pause(attempt, since)
            : this.#options.retry(attempt, elapsed(since));
          this.observer.connectFailed({ error, attempt, pause });
          if (pause === undefined) throw error;
          await sleep(pause, { signals: [this.stopping], ref: true });
        }
      }
    } catch (error) {
      // A server has created the session, but did not reply to its first request.
      this.#addOrphan(session.credentials());
      throw error;
    }
  }

  /** @param timeLeft returns the milliseconds for which it is worth trying */
  #connect(session: Session, signal: AbortSignal, timeLeft: () => number): Promise<void> {
    return this.#connector.connect({
      credentials: () => session.credentials(),
      granted: () => session.timeout,
      listener: session.listener(),
      signal,
      timeLeft,
      use: (connection, within) => session.attach(connection, within),
    });
  }

  #newSession(): Session {
    const session: Session = new Session(this.#options, {
      attached: () => {
        this.#session = session;
        this.#file?.write(session.credentials()!);
        this.connection.apply('attached', session.id);
        this.#closeOrphans();
      },
      detached: (reason) => {
        this.connection.apply('detached', session.id, reason);
        this.#wake();
      },
      ended: (reason, confirmed) => {
        // Its holders have the rest of the timeout to stop, as without a connection.
        if (!confirmed) {
          this.#addOrphan(session.credentials(), session.timeout - session.deadline.age);
        }
        this.connection.apply('lost', session.id, reason);
        this.#wake();
      },
      deleteRefused: this.observer.deleteRefused,
    });
    return session;
  }

  /** @param delay milliseconds after which it may be closed */
  #addOrphan(credentials: Credentials | undefined, delay = 0): void {
    if (!credentials) return;
    this.#orphans.push({ credentials, closeAt: performance.now() + delay });
    // A timer may fire up to 1 ms early.
    if (delay > 0) setTimeout(() => this.#closeOrphans(), Math.ceil(delay) + 1).unref();
  }

  /**
   * Closes sessions that the ensemble may not know to be over. After an outage the ensemble restarts their
   * timeouts, and their ephemeral znodes would block other clients until then.
   */
  #closeOrphans(now = performance.now()): void {
    // Without a connection, the next one closes them.
    if (now < Infinity && !this.#session?.connected) return;
    const due = this.#orphans.filter(({ closeAt }) => closeAt <= now);
    this.#orphans = this.#orphans.filter(({ closeAt }) => closeAt > now);
    for (const { credentials } of due) {
      const closing = this.#connector
        .connect({
          credentials: () => credentials,
          granted: () => 0,
          listener: { onWatch: () => {}, onDown: () => {} },
          signal: AbortSignal.timeout(ORPHAN_LIMIT),
          timeLeft: () => ORPHAN_LIMIT,
          use: async ({ transport }) => void (await transport.close()),
        })
        // One attempt is enough: the session also ends with its timeout.
        .catch(() => {})
        .finally(() => this.#closingOrphans.delete(closing));
      this.#closingOrphans.add(closing);
    }
  }

  #pause(attempt: number, since: Instant): number {
    let pause: number | undefined;
    try {
      pause = this.#options.retry(attempt, elapsed(since));
    } catch (error) {
      // The retry policy of the user has thrown: connect() or the next operation rejects with its error.
      warn(error);
    }
    return Math.min(MAX_PAUSE, Math.max(MIN_PAUSE, pause ?? PAUSE_AFTER_POLICY));
  }
}

function cancelled(signal: AbortSignal): WaitCancelledError {
  return new WaitCancelledError('the wait for a connection was cancelled', {
    cause: signal.reason,
  });
}
