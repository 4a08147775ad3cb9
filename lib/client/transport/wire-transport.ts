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
  type DownReason,
  type Reply,
  type Transport,
  unreachableError,
} from './transport.js';
import { type ByteStream, type ConnectResponse, WireConnection } from './wire-connection.js';

/** Opens a stream to a server. */
type Open = (address: Address) => ByteStream;

const openTcp: Open = ({ ip, port }) => connectTcp({ host: ip, port, noDelay: true });

/** Attaches sessions with ZooKeeper's protocol over streams that `open` opens, and authenticates them with SASL. */
export function connectWire(open: Open = openTcp, sasl?: Mechanism): Connect {
  return (request) =>
    new Promise((resolve, reject) => {
      if (request.signal.aborted) return reject(request.signal.reason);
      const exchange = sasl?.(request.address.host);
      detached(() => new Attachment(open(request.address), request, exchange, resolve, reject));
    });
}

/** Attaches a session over one stream, and reports the end of its connection. */
class Attachment {
  readonly #connection: WireConnection;
  /** Private at run time as well: it has the passwords of the client. */
  readonly #request: ConnectRequest;
  #phase: 'handshake' | 'up' | 'over' = 'handshake';
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
    this.#request = request;
    this.#unauthenticated = request.authInfo.length;
    this.#connection = new WireConnection(stream, request.address.label, {
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

  /** The first token travels with the connect request. The server reads it after it has attached the session. */
  async #authenticate(exchange: Exchange): Promise<void> {
    try {
      await exchange.run(this.#connection.server, (token, reply) =>
        this.#connection.request({ kind: 'sasl', token }, reply as Reply<unknown>),
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
    for (const userPassword of this.#request.authInfo) this.#connection.authenticate(userPassword);
  }

  #onConnectResponse(response: ConnectResponse): void {
    const { credentials } = this.#request;
    if (response.timeout <= 0) return this.#break('expired', 'it made no session');
    if (response.protocolVersion !== 0) return this.#break('disconnected', 'it accepts no session');
    if (credentials && response.sessionId !== credentials.id) {
      // ClickHouse Keeper never resumes a session: it granted another one, which is closed.
      const error = attachError(this.#request, 'expired', 'it granted another session');
      return void this.#connection.close().then(() => this.#fail(error));
    }
    if (response.readOnly) return this.#break('disconnected', 'it is read-only');
    this.#response = response;
    this.#attachIfReady();
  }

  #attachIfReady(): void {
    if (this.#phase !== 'handshake' || !this.#response || this.exchange) return;
    if (this.#unauthenticated > 0) return;
    this.#endHandshake('up');
    this.resolve(this.#connection);
  }

  readonly #onAbort = (): void => this.#fail(this.#request.signal.reason);

  #fail(error: unknown): void {
    if (this.#phase !== 'handshake') return;
    this.#endHandshake('over');
    this.#connection.destroy();
    this.reject(error);
  }

  #break(reason: DownReason, why: string, cause?: Error): void {
    if (this.#phase === 'handshake') return this.#fail(this.#connectError(reason, why, cause));
    if (this.#phase === 'over') return;
    this.#phase = 'over';
    this.#connection.destroy();
    const violation = cause instanceof ProtocolError ? cause : undefined;
    this.#request.listener.onDown(reason, violation);
  }

  #connectError(reason: DownReason, why: string, cause: Error | undefined): Error {
    if (cause && 'syscall' in cause && cause.syscall === 'connect') {
      return unreachableError(this.#request.address, cause);
    }
    const advice = cause && tlsAdvice(cause);
    const what = advice ? `${why.trim()}; ${advice}` : why;
    return attachError(this.#request, reason, what, cause);
  }

  #endHandshake(next: 'up' | 'over'): void {
    this.#phase = next;
    this.#request.signal.removeEventListener('abort', this.#onAbort);
  }
}
