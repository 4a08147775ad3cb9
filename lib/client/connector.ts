import { ConnectionError, SessionExpiredError } from './errors.js';
import { type Host, type HostProvider, resolveHost } from './hosts.js';
import type { NormalizedOptions } from './options.js';
import { type Instant, instant } from './session-deadline.js';
import { identifyServer, type ServerKind } from './server-kind.js';
import { firstReachable } from './transport/tcp-probe.js';
import {
  type Address,
  allFailed,
  type Connect,
  type Credentials,
  type Transport,
  type TransportListener,
} from './transport/transport.js';

/** A new connection that carries a session. */
export interface Connection {
  readonly transport: Transport;
  readonly serverKind: ServerKind;
  /** An instant before the handshake was sent. */
  readonly startedAt: Instant;
}

interface Attempt {
  /** Called for each address. Undefined requests a new session. */
  credentials(): Credentials | undefined;
  readonly listener: TransportListener;
  readonly signal: AbortSignal;
  /** Returns the milliseconds until the session counts as lost; Infinity for a session that was never connected. */
  timeLeft(): number;
  /** Uses the new connection. If it throws a ConnectionError, the next address is tried. */
  use(connection: Connection, signal: AbortSignal): Promise<void>;
}

/** A failed attempt to connect to the ensemble. */
export interface ConnectFailure {
  readonly error: unknown;
  /** Counts from 1 since the connection was lost, or since the first connect began. */
  readonly attempt: number;
  /** Milliseconds until the next attempt; undefined if there is none. */
  readonly pause: number | undefined;
}

/**
 * Connects to one server of the ensemble: tries all addresses of all hosts, one at a time. Each address gets an equal
 * share of the time that is left for the session, and at most the connect timeout.
 */
export class Connector {
  constructor(
    private readonly connectTo: Connect,
    private readonly hosts: HostProvider,
    private readonly options: NormalizedOptions,
  ) {}

  /**
   * Tries each host once, until one connection is used successfully.
   *
   * @throws ConnectionError if all failed, with the failure of each; SessionExpiredError, NotAuthorizedError or
   *   UnsafeServerError of the first server that causes one, because it holds for all servers; the signal's reason
   */
  async connect(attempt: Attempt): Promise<void> {
    const failures: ConnectionError[] = [];
    for (let hosts = this.hosts.size; hosts > 0; hosts--) {
      try {
        const failed = await this.#tryHost(this.hosts.next(), hosts - 1, attempt);
        if (!failed) return;
        failures.push(...failed);
      } catch (error) {
        if (!(error instanceof ConnectionError)) throw error;
        failures.push(error);
      }
    }
    throw allFailed(failures, 'no server of the ensemble could be used: ');
  }

  /**
   * Resolves to the failures of all addresses, or to undefined if a connection is used.
   *
   * @param otherHosts the number of hosts that will be tried after this one
   */
  async #tryHost(
    host: Host,
    otherHosts: number,
    attempt: Attempt,
  ): Promise<ConnectionError[] | undefined> {
    let addresses = await this.#within(attempt, 1, otherHosts, host.label, () => resolveHost(host));
    const failures: ConnectionError[] = [];
    while (addresses.length > 0) {
      let [address] = addresses;
      if (addresses.length > 1) {
        address = await this.#within(attempt, addresses.length, otherHosts, host.label, (signal) =>
          firstReachable(addresses, signal),
        );
      }
      addresses = addresses.filter((other) => other !== address);
      const others = otherHosts + addresses.length;
      try {
        return await this.#within(attempt, 1, others, address.label, (signal) =>
          this.#use(address, attempt, signal),
        );
      } catch (error) {
        if (!(error instanceof ConnectionError) || attempt.signal.aborted) throw error;
        failures.push(error);
      }
    }
    return failures;
  }

  async #use(address: Address, attempt: Attempt, signal: AbortSignal): Promise<undefined> {
    const { sessionTimeout, authInfo, allowUnsafeFencing } = this.options;
    const credentials = attempt.credentials();
    const startedAt = instant();
    const transport = await this.connectTo({
      address,
      sessionTimeout,
      authInfo,
      credentials,
      listener: attempt.listener,
      signal,
    });
    const serverKind = await identifyServer(transport, allowUnsafeFencing, signal);
    if (credentials && serverKind === 'clickhouse-keeper') {
      // It resumes no session. If it has lost its data, it counts session ids from 1 again, and this is a new session.
      void transport.close();
      const over = `the session is over: ${address.label} resumes no session`;
      throw new SessionExpiredError(over);
    }
    await attempt.use({ transport, serverKind, startedAt }, signal);
  }

  /**
   * Runs a step with a signal that aborts with the signal of the attempt, or at the limit of the step.
   *
   * @param addresses the number of addresses that the step tries
   * @param others the number of addresses that will be tried after it. All get equal shares of the time that is left
   */
  async #within<T>(
    { signal: outer, timeLeft }: Attempt,
    addresses: number,
    others: number,
    label: string,
    run: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    outer.throwIfAborted();
    const share = Math.min(this.options.connectTimeout, timeLeft() / (addresses + others));
    const limit = Math.max(1, Math.ceil(share * addresses));
    const controller = new AbortController();
    const follow = () => controller.abort(outer.reason);
    outer.addEventListener('abort', follow, { once: true });
    const timer = setTimeout(() => {
      controller.abort(new ConnectionError(`${label}: no reply within ${limit} ms`));
    }, limit);
    try {
      // Rejects even if the step ignores its signal, as a DNS lookup does.
      return await new Promise<T>((resolve, reject) => {
        controller.signal.addEventListener('abort', () => reject(controller.signal.reason), {
          once: true,
        });
        run(controller.signal).then(resolve, reject);
      });
    } finally {
      clearTimeout(timer);
      outer.removeEventListener('abort', follow);
    }
  }
}
