import { connect as connectTcp } from 'node:net';
import { ErrorCode } from '../../protocol/codes.js';
import { ProtocolError } from '../../protocol/jute.js';
import { detached } from '../listeners.js';
import type { Exchange, Mechanism } from './sasl/mechanism.js';
import { tlsAdvice } from './tls.js';
import {
  attachError,
  type Address,
  type Connect,
  type ConnectRequest,
  type Credentials,
  type DownReason,
  type Reply,
  type RequestKind,
  type RequestOf,
  type ResultOf,
  type Transport,
  unreachableError,
} from './transport.js';
import { type ByteStream, type ConnectResponse, WireConnection } from './wire-connection.js';

/** Opens a stream to a server. */
export type Open = (address: Address) => ByteStream;

const openTcp: Open = ({ ip, port }) => connectTcp({ host: ip, port, noDelay: true });

/** Attaches sessions with ZooKeeper's protocol over streams that `open` opens, and authenticates them with SASL. */
export function connectWire(open: Open = openTcp, sasl?: Mechanism): Connect {
  return (request) =>
    new Promise((resolve, reject) => {
      if (request.signal.aborted) return reject(request.signal.reason);
      const exchange = sasl?.begin(request.address.host);
      detached(() => new WireTransport(open(request.address), request, exchange, resolve, reject));
    });
}

class WireTransport implements Transport {
  readonly promptClose = true;
  readonly #connection: WireConnection;
  /** Private at run time as well: it has the passwords of the client. */
  readonly #connectRequest: ConnectRequest;
  #phase: 'handshake' | 'refused' | 'up' | 'over' = 'handshake';
  #response: ConnectResponse | undefined;
  #unauthenticated: number;

  constructor(
    stream: ByteStream,
    request: ConnectRequest,
    /** Undefined once the server has authenticated itself, or without SASL. */
    private exchange: Exchange | undefined,
    private readonly resolve: (transport: Transport) => void,
    private readonly reject: (reason: unknown) => void,
  ) {
    this.#connectRequest = request;
    this.#unauthenticated = request.authInfo.length;
    this.#connection = new WireConnection(stream, {
      connectResponse: (response) => this.#onConnectResponse(response),
      authenticated: (code) => {
        // Otherwise an impostor could end the exchange without a proof that it knows the password.
        if (this.exchange) return this.#break('disconnected', 'it replied to unsent credentials');
        if (code !== ErrorCode.ok) return this.#break('unauthorized', 'it refused the credentials');
        this.#unauthenticated--;
        this.#attachIfReady();
      },
      watched: (event, path) => {
        if (this.#phase === 'up') request.listener.onWatch(event, path);
      },
      down: (cause) => {
        const why = `the connection broke${this.exchange ? ' before the end of SASL authentication' : ''}`;
        this.#break('disconnected', cause?.message ?? why, cause);
      },
    });
    request.signal.addEventListener('abort', this.#onAbort, { once: true });
    this.#connection.sendConnectRequest(request.sessionTimeout, request.credentials);
    if (exchange) void this.#authenticate(exchange);
    else this.#sendAuthInfo();
  }

  get credentials(): Credentials {
    const { sessionId, password } = this.#response!;
    return { id: sessionId, password, lastZxid: this.#connection.lastZxid };
  }

  get server(): string {
    return this.#connectRequest.address.label;
  }

  get timeout(): number {
    return this.#response!.timeout;
  }

  request<K extends RequestKind>(request: RequestOf<K>, reply: Reply<ResultOf<K>>): boolean {
    return this.#connection.request({ request, reply: reply as Reply<unknown> });
  }

  async close(): Promise<boolean> {
    if (this.#phase === 'over') return false;
    this.#enter('over');
    return this.#connection.close();
  }

  destroy(): void {
    if (this.#phase === 'over') return;
    this.#enter('over');
    this.#connection.drop();
  }

  /** The first token travels with the connect request. The server reads it after it has attached the session. */
  async #authenticate(exchange: Exchange): Promise<void> {
    try {
      await exchange.run(this.server, (token, reply) =>
        this.#connection.request({
          request: { kind: 'sasl', token },
          reply: reply as Reply<unknown>,
        }),
      );
    } catch (error) {
      return this.#fail(error);
    }
    this.exchange = undefined;
    this.#sendAuthInfo();
    this.#attachIfReady();
  }

  /** Sent before any request of this connection. */
  #sendAuthInfo(): void {
    for (const userPassword of this.#connectRequest.authInfo)
      this.#connection.authenticate(userPassword);
  }

  #onConnectResponse(response: ConnectResponse): void {
    const { credentials } = this.#connectRequest;
    if (response.timeout <= 0) return this.#break('expired', 'it made no session');
    if (response.protocolVersion !== 0) return this.#break('disconnected', 'it accepts no session');
    if (credentials && response.sessionId !== credentials.id) {
      // ClickHouse Keeper never resumes a session: it granted another one, which is closed.
      this.#phase = 'refused';
      const error = attachError(this.#connectRequest, 'expired', 'it granted another session');
      return void this.#connection.close().then(() => this.#fail(error));
    }
    if (response.readOnly) return this.#break('disconnected', 'it is read-only');
    this.#response = response;
    this.#attachIfReady();
  }

  #attachIfReady(): void {
    if (this.#phase !== 'handshake' || !this.#response || this.exchange) return;
    if (this.#unauthenticated > 0) return;
    this.#enter('up');
    this.resolve(this);
  }

  readonly #onAbort = (): void => this.#fail(this.#connectRequest.signal.reason);

  /** Ends the handshake. */
  #fail(error: unknown): void {
    if (this.#phase === 'up' || this.#phase === 'over') return;
    this.#enter('over');
    this.#connection.drop();
    this.reject(error);
  }

  #break(reason: DownReason, why: string, cause?: Error): void {
    const phase = this.#phase;
    if (phase === 'refused' || phase === 'over') return;
    this.#enter('over');
    this.#connection.drop();
    if (phase === 'up')
      this.#connectRequest.listener.onDown(
        reason,
        cause instanceof ProtocolError ? cause : undefined,
      );
    else this.reject(this.#connectError(reason, why, cause));
  }

  #connectError(reason: DownReason, why: string, cause: Error | undefined): Error {
    if (cause && 'syscall' in cause && cause.syscall === 'connect') {
      return unreachableError(this.#connectRequest.address, cause);
    }
    const advice = cause && tlsAdvice(cause);
    return attachError(
      this.#connectRequest,
      reason,
      advice ? `${why.trim()}; ${advice}` : why,
      cause,
    );
  }

  /** Leaves the handshake, or the phase `up`. */
  #enter(phase: 'up' | 'over'): void {
    this.#phase = phase;
    this.#connectRequest.signal.removeEventListener('abort', this.#onAbort);
  }
}
