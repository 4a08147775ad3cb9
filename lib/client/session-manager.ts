import { setMaxListeners } from 'node:events';
import { HostRing } from './connect-string.js';
import { Connector } from './connector.js';
import { detached } from './listeners.js';
import {
  ConnectionError,
  SessionExpiredError,
  ShuttingDownError,
  WaitCancelledError,
} from './errors.js';
import { LiveSession } from './live-session.js';
import { elapsed, instant, type Instant } from './keepalive.js';
import type { NormalizedOptions } from './options.js';
import type { RetryFunction } from './retry.js';
import { StateMachine } from './connection-state.js';
import type { Connect, Credentials, TransportListener } from './transport/transport.js';
import { wait } from './sleep.js';

/** Bounds of the pause between two rounds of attempts where the client may not give up, milliseconds. */
const MIN_PAUSE = 10;
const MAX_PAUSE = 5000;
/** The pause where the retry policy has given up, but the client may not, milliseconds. */
const PAUSE_AFTER_POLICY = 1000;
/** How long close() waits for a server that does not answer, milliseconds. */
const ANSWER_LIMIT = 1000;
/** How long a session that ended without the ensemble's knowledge is looked after, milliseconds. */
const BURIAL_LIMIT = 2000;

const NOBODY: TransportListener = { onWatch: () => {}, onDown: () => {} };

/** Keeps one session attached, and makes a new one when it is over, until it is stopped. */
export class SessionKeeper {
  readonly machine = new StateMachine();
  readonly #options: NormalizedOptions;
  readonly #hosts: HostRing;
  readonly #connector: Connector;
  readonly #stopping = new AbortController();
  /** Sessions that are over here but perhaps not for the ensemble, where their ephemeral nodes stay till then. */
  readonly #orphans: Credentials[] = [];
  readonly #burials = new Set<Promise<void>>();
  #session: LiveSession | undefined;
  #started: Promise<void> | undefined;
  #stopped: Promise<void> | undefined;
  #lastFailure: unknown;
  #wake: () => void = () => {};

  constructor(options: NormalizedOptions, connect: Connect) {
    const { sessionTimeout, connectTimeout, digests } = options;
    this.#options = options;
    this.#hosts = new HostRing(options.hosts);
    this.#connector = new Connector({
      connect,
      hosts: this.#hosts,
      sessionTimeout,
      connectTimeout,
      digests,
    });
    // Every wait listens to it.
    setMaxListeners(0, this.#stopping.signal);
  }

  /** Aborts, with a ShuttingDownError, when the client is closed. */
  get stopping(): AbortSignal {
    return this.#stopping.signal;
  }

  /** Of the present session, attached or not; undefined where there is none. */
  get sessionId(): string | undefined {
    return this.#session?.alive ? this.#session.id : undefined;
  }

  /** Resolves with the first session; where the retry policy gives up, nothing is left running. */
  start(): Promise<void> {
    if (this.stopping.aborted) return Promise.reject(this.stopping.reason);
    return (this.#started ??= detached(() => this.#start()));
  }

  stop(): Promise<void> {
    return (this.#stopped ??= detached(() => this.#stop()));
  }

  /** The present session, attached; waits for it as long as the retry policy allows. */
  async session(signal?: AbortSignal): Promise<LiveSession> {
    const since = instant();
    for (let attempt = 1; ; attempt++) {
      this.stopping.throwIfAborted();
      if (signal?.aborted) throw cancelled(signal);
      const session = this.#session;
      if (session?.alive && session.connected) return session;
      const delay = this.#started && this.#options.retry(attempt, elapsed(since));
      if (delay === undefined) {
        const why = this.#started
          ? ' within the retry policy'
          : ': connect() has not succeeded yet';
        throw new ConnectionError(`no connection to ${this.#hosts.label}${why}`, {
          cause: this.#lastFailure,
        });
      }
      await this.#attachedWithin(delay, signal);
    }
  }

  async #attachedWithin(delay: number, signal: AbortSignal | undefined): Promise<void> {
    try {
      await wait(delay, {
        signals: [signal, this.stopping],
        until: (wake) =>
          this.machine.listen(({ state }) => {
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
      void this.#keep(await this.#establish(this.#options.retry));
    } catch (error) {
      this.#started = undefined;
      throw error;
    }
  }

  async #stop(): Promise<void> {
    const reason = new ShuttingDownError('the ZooKeeper client was closed');
    const session = this.#session;
    this.machine.apply('closed', session?.id, reason);
    this.#stopping.abort(reason);
    this.#wake();
    const outcome = await session?.shutDown(reason, ANSWER_LIMIT);
    // Another server may know of the session what the present one does not answer to.
    if (outcome === 'away' || (outcome === 'unanswered' && this.#hosts.size > 1)) {
      if (session?.credentials) this.#orphans.push(session.credentials);
    }
    this.#buryOrphans();
    await Promise.all(this.#burials);
  }

  async #keep(session: LiveSession): Promise<void> {
    while (!this.stopping.aborted) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
        if (!session.alive || !session.connected) resolve();
      });
      try {
        if (session.alive && !session.connected) await this.#reattach(session);
        if (!session.alive) session = await this.#establish();
      } catch (error) {
        if (!this.stopping.aborted) throw error;
      }
    }
  }

  /** Until it is attached again, or over. */
  async #reattach(session: LiveSession): Promise<void> {
    const over = new AbortController();
    const end = () => over.abort();
    const forget = session.onLost(end);
    const since = instant();
    try {
      for (let attempt = 1; !over.signal.aborted; attempt++) {
        try {
          return await this.#round(session, over.signal);
        } catch (error) {
          if (over.signal.aborted) return;
          if (error instanceof SessionExpiredError) return session.expire(error);
          this.#lastFailure = error;
        }
        // Short enough not to use the session's time up by itself.
        const pause = Math.min(this.#pause(attempt, since), session.timeout / 10);
        await wait(pause, { signals: [over.signal], ref: true }).catch(() => {});
      }
    } finally {
      forget();
    }
  }

  /** @param policy bounds the attempts; without it they go on until the client is closed */
  async #establish(policy?: RetryFunction): Promise<LiveSession> {
    const since = instant();
    let session = this.#newSession();
    for (let attempt = 1; ; attempt++) {
      try {
        await this.#round(session, this.stopping);
        return session;
      } catch (error) {
        this.stopping.throwIfAborted();
        this.#lastFailure = error;
        if (error instanceof SessionExpiredError) session = this.#newSession();
        else if (policy && !(error instanceof ConnectionError)) throw error;
        const pause = policy ? policy(attempt, elapsed(since)) : this.#pause(attempt, since);
        if (pause === undefined) throw error;
        await wait(pause, { signals: [this.stopping], ref: true });
      }
    }
  }

  #round(session: LiveSession, signal: AbortSignal): Promise<void> {
    return this.#connector.round({
      credentials: () => session.credentials,
      listener: session.listener(),
      signal,
      use: (transport, startedAt, within) => session.attach(transport, startedAt, within),
    });
  }

  #newSession(): LiveSession {
    const { chroot, policy } = this.#options;
    const session: LiveSession = new LiveSession({
      chroot,
      policy,
      observer: {
        attached: () => {
          this.#session = session;
          this.machine.apply('attached', session.id);
          this.#buryOrphans();
        },
        detached: (reason) => {
          this.machine.apply('detached', session.id, reason);
          this.#wake();
        },
        ended: (reason, told) => {
          if (!told && session.credentials) this.#orphans.push(session.credentials);
          this.machine.apply('lost', session.id, reason);
          this.#wake();
        },
      },
    });
    return session;
  }

  /**
   * Closes sessions that this client gave up without a word from the ensemble: after an outage it starts
   * to count their timeout from the beginning, and their ephemeral nodes would block others that long.
   */
  #buryOrphans(): void {
    for (const credentials of this.#orphans.splice(0)) {
      const burial = this.#connector
        .round({
          credentials: () => credentials,
          listener: NOBODY,
          signal: AbortSignal.timeout(BURIAL_LIMIT),
          use: async (transport) => void (await transport.close()),
        })
        // One try is what it is worth: the session ends by itself.
        .catch(() => {})
        .finally(() => this.#burials.delete(burial));
      this.#burials.add(burial);
    }
  }

  #pause(attempt: number, since: Instant): number {
    let pause: number | undefined;
    try {
      pause = this.#options.retry(attempt, elapsed(since));
    } catch (error) {
      // A policy of the user's own: the first connect() or the next operation tells them.
      process.emitWarning(error instanceof Error ? error : String(error));
    }
    return Math.min(MAX_PAUSE, Math.max(MIN_PAUSE, pause ?? PAUSE_AFTER_POLICY));
  }
}

function cancelled(signal: AbortSignal): WaitCancelledError {
  return new WaitCancelledError('the wait for a connection was cancelled', {
    cause: signal.reason,
  });
}
