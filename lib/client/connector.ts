import { type HostRing, resolve } from './connect-string.js';
import { ConnectionError } from './errors.js';
import { instant, type Instant } from './keepalive.js';
import type {
  Address,
  Connect,
  Credentials,
  Transport,
  TransportListener,
} from './transport/transport.js';

interface ConnectorOptions {
  readonly connect: Connect;
  readonly hosts: HostRing;
  readonly sessionTimeout: number;
  readonly connectTimeout: number;
  readonly digests: readonly string[];
}

interface Attempt {
  /** Of the session to attach again; read at each try. */
  credentials(): Credentials | undefined;
  readonly listener: TransportListener;
  readonly signal: AbortSignal;
  /** Makes use of a fresh connection, or throws: then the next host is tried. */
  use(transport: Transport, startedAt: Instant, signal: AbortSignal): Promise<void>;
}

/** Tries the ensemble's hosts, each address of each, one at a time. */
export class Connector {
  constructor(private readonly options: ConnectorOptions) {}

  /**
   * Every host once.
   *
   * @throws ConnectionError when none would have it, with what each said; SessionExpiredError,
   *   NotAuthorizedError: what one server says holds for all; the signal's reason
   */
  async round(attempt: Attempt): Promise<void> {
    const failures: ConnectionError[] = [];
    for (let tried = 0; tried < this.options.hosts.size; tried++) {
      const host = this.options.hosts.next();
      try {
        const addresses = await this.#within(attempt.signal, host.label, () => resolve(host));
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
    const said = failures.map((failure) => failure.message).join('; ');
    throw new ConnectionError(`no server of the ensemble could be used: ${said}`, {
      cause: failures.length === 1 ? failures[0] : new AggregateError(failures),
    });
  }

  async #tryAddress(address: Address, attempt: Attempt): Promise<ConnectionError | undefined> {
    const { connect, sessionTimeout, digests } = this.options;
    try {
      await this.#within(attempt.signal, address.label, async (signal) => {
        const startedAt = instant();
        const transport = await connect({
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

  /** Runs with a signal that follows the given one and has a deadline of its own. */
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
      // Not every step can be cancelled: the DNS cannot.
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
