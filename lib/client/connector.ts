import { ConnectionError } from './errors.js';
import { type HostProvider, resolveHost } from './hosts.js';
import type { NormalizedOptions } from './options.js';
import { type Instant, instant } from './session-deadline.js';
import type {
  Address,
  Connect,
  Credentials,
  Transport,
  TransportListener,
} from './transport/transport.js';

interface Attempt {
  /** Called for each address. Undefined requests a new session. */
  credentials(): Credentials | undefined;
  readonly listener: TransportListener;
  readonly signal: AbortSignal;
  /** Uses the new connection. If it throws a ConnectionError, the next address is tried. */
  use(transport: Transport, startedAt: Instant, signal: AbortSignal): Promise<void>;
}

/** Connects to one server of the ensemble: tries all addresses of all hosts, one at a time. */
export class Connector {
  constructor(
    private readonly connectTo: Connect,
    private readonly hosts: HostProvider,
    private readonly options: NormalizedOptions,
  ) {}

  /**
   * Tries each host once, until one connection is used successfully.
   *
   * @throws ConnectionError if all failed, with the failure of each; SessionExpiredError or
   *   NotAuthorizedError of the first server that answers so, because it holds for all servers; the signal's
   *   reason
   */
  async connect(attempt: Attempt): Promise<void> {
    const failures: ConnectionError[] = [];
    for (let tried = 0; tried < this.hosts.size; tried++) {
      const host = this.hosts.next();
      try {
        const addresses = await this.#within(attempt.signal, host.label, () => resolveHost(host));
        for (const address of addresses) {
          const failure = await this.#tryAddress(address, attempt);
          if (!failure) return;
          failures.push(failure);
        }
      } catch (error) {
        if (!(error instanceof ConnectionError)) throw error;
        failures.push(error);
      }
    }
    const messages = failures.map((failure) => failure.message).join('; ');
    throw new ConnectionError(`no server of the ensemble could be used: ${messages}`, {
      cause: failures.length === 1 ? failures[0] : new AggregateError(failures),
    });
  }

  async #tryAddress(address: Address, attempt: Attempt): Promise<ConnectionError | undefined> {
    const { sessionTimeout, digests } = this.options;
    try {
      await this.#within(attempt.signal, address.label, async (signal) => {
        const startedAt = instant();
        const transport = await this.connectTo({
          address,
          sessionTimeout,
          digests,
          credentials: attempt.credentials(),
          listener: attempt.listener,
          signal,
        });
        await attempt.use(transport, startedAt, signal);
      });
      return undefined;
    } catch (error) {
      if (attempt.signal.aborted) throw attempt.signal.reason;
      if (error instanceof ConnectionError) return error;
      throw error;
    }
  }

  /** Runs a step with a signal that aborts with `outer`, or after the connect timeout. */
  async #within<T>(
    outer: AbortSignal,
    label: string,
    run: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    outer.throwIfAborted();
    const { connectTimeout } = this.options;
    const controller = new AbortController();
    const follow = () => controller.abort(outer.reason);
    outer.addEventListener('abort', follow, { once: true });
    const timer = setTimeout(() => {
      controller.abort(new ConnectionError(`${label}: no answer within ${connectTimeout} ms`));
    }, connectTimeout);
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
