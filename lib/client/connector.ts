import { ErrorCode } from '../protocol/codes.js';
import { sessionPassword } from '../protocol/session-password.js';
import { ConnectionError, SessionExpiredError, UnsafeServerError } from './errors.js';
import { firstReachable, type Host, type HostProvider, resolveHost } from './hosts.js';
import type { NormalizedOptions } from './options.js';
import { abortable, onAbort } from './sleep.js';
import { attachmentError } from './reply-errors.js';
import { type Instant, instant } from './session-deadline.js';
import {
  type Address,
  allFailed,
  type Connect,
  type Credentials,
  type Transport,
  type TransportListener,
} from './transport/transport.js';

/**
 * The kind of a server, as the client recognizes it:
 *
 * - `'zookeeper'`: Apache ZooKeeper;
 * - `'clickhouse-keeper'`: ClickHouse Keeper since 23.6;
 * - `'raftkeeper'`: RaftKeeper, whose transaction ids may fall, so that fencing tokens are unsafe; or an older ClickHouse
 *   Keeper, which looks the same;
 * - `'unknown'`: another server, which is used like ClickHouse Keeper.
 *
 * @publicApi
 */
export type ServerKind = 'zookeeper' | 'clickhouse-keeper' | 'raftkeeper' | 'unknown';

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
  /** The session timeout that a server has granted, milliseconds; 0 for a new session. */
  granted(): number;
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
      // A longer one would apply on this server only, and not after its restart.
      sessionTimeout: attempt.granted() || sessionTimeout,
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
    const unfollow = onAbort(outer, () => controller.abort(outer.reason));
    const timer = setTimeout(() => {
      controller.abort(new ConnectionError(`${label}: no reply within ${limit} ms`));
    }, limit);
    try {
      // Rejects even if the step ignores its signal, as a DNS lookup does.
      return await abortable(run(controller.signal), controller.signal);
    } finally {
      clearTimeout(timer);
      unfollow();
    }
  }
}

const NO_PASSWORD = Buffer.alloc(16);

/** A znode of ClickHouse Keeper since 23.6. */
const FEATURE_FLAGS = '/keeper/feature_flags';

/**
 * Resolves to the kind of the server of a new connection. Apache ZooKeeper computes the password of a session from its id;
 * ClickHouse Keeper and RaftKeeper give zeros. One request then distinguishes these two: of them, only ClickHouse Keeper has
 * the znode of the feature flags. If the promise rejects, the connection is closed.
 *
 * @throws UnsafeServerError unless `allowUnsafeFencing`; ConnectionError, or the signal's reason
 */
async function identifyServer(
  transport: Transport,
  allowUnsafeFencing: boolean,
  signal: AbortSignal,
): Promise<ServerKind> {
  const { id } = transport.credentials;
  const password = Buffer.from(transport.credentials.password, 'hex');
  if (password.equals(sessionPassword(BigInt(`0x${id}`)))) return 'zookeeper';
  if (!password.equals(NO_PASSWORD)) return 'unknown';
  const removeListener = onAbort(signal, () => transport.destroy());
  try {
    if (await hasNode(transport, FEATURE_FLAGS)) return 'clickhouse-keeper';
    if (allowUnsafeFencing) return 'raftkeeper';
    throw new UnsafeServerError(transport.server);
  } catch (error) {
    if (error instanceof UnsafeServerError) void transport.close();
    else transport.destroy();
    signal.throwIfAborted();
    throw error;
  } finally {
    removeListener();
  }
}

function hasNode(transport: Transport, path: string): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const sent = transport.request({ kind: 'exists', path }, (code) => {
      if (code === ErrorCode.ok || code === ErrorCode.noNode) resolve(code === ErrorCode.ok);
      else reject(attachmentError(code, 'exists', path));
    });
    if (!sent) reject(new ConnectionError('the connection broke right after it was established'));
  });
}
