import { once } from 'node:events';
import net from 'node:net';
import type { InMemoryStream } from '../../lib/embedded/stream.js';
import {
  type Codec,
  ConnectRequest,
  ConnectResponse,
  Empty,
  FrameSplitter,
  OpCode,
  Reader,
  ReplyHeader,
  type ValueOf,
  WatcherEvent,
  type Writer,
  Xid,
} from '../../lib/protocol/index.js';
import { frameOf } from './frames.js';

export interface RawConnectOptions {
  /** The port of a server on loopback, or a stream to a server in this process. */
  port: number | InMemoryStream;
  timeout?: number;
  /** Attaches to this session instead of creating a new one. */
  sessionId?: bigint;
  password?: Uint8Array;
  lastZxidSeen?: number;
  /** `undefined` omits the trailing byte of the handshake, as old clients do. */
  readOnly?: boolean;
}

export interface RawReply<T> {
  xid: number;
  zxid: number;
  err: number;
  body: T | undefined;
}

type RawEvent = ValueOf<typeof WatcherEvent>;

/** A client of the wire format: one socket, no retries and no implicit requests. */
export class RawClient {
  readonly events: RawEvent[] = [];
  /** Everything received, in order: the xids of replies, and `event:type:path`. */
  readonly received: string[] = [];
  readonly closed: Promise<void>;
  session!: ValueOf<typeof ConnectResponse>;

  readonly #splitter = new FrameSplitter(0x7fff_ffff);
  readonly #waiting: { xid: number; settle: (frame: Reader | Error) => void }[] = [];
  #onFrame: ((frame: Reader | Error) => void) | undefined;
  #onEvent: (() => void)[] = [];
  #nextXid = 1;

  private constructor(readonly socket: net.Socket) {
    this.closed = new Promise((resolve) => socket.once('close', () => resolve()));
    socket.setNoDelay(true);
    socket.on('error', () => {});
    socket.on('end', () => socket.destroy());
    socket.on('data', (chunk: Buffer) => {
      this.#splitter.push(chunk);
      for (let frame = this.#splitter.next(); frame; frame = this.#splitter.next()) {
        this.#take(new Reader(frame));
      }
    });
    void this.closed.then(() => {
      const gone = new Error('the server closed the connection');
      this.#onFrame?.(gone);
      for (const { settle } of this.#waiting.splice(0)) settle(gone);
    });
  }

  static async open(port: number | InMemoryStream): Promise<RawClient> {
    if (typeof port !== 'number') return new RawClient(port as unknown as net.Socket);
    const socket = net.connect(port, '127.0.0.1');
    await once(socket, 'connect');
    return new RawClient(socket);
  }

  static async connect(options: RawConnectOptions): Promise<RawClient> {
    const client = await RawClient.open(options.port);
    await client.handshake(options);
    return client;
  }

  /** Requests a session; the reply is stored in {@link session}. */
  async handshake(options: Omit<RawConnectOptions, 'port'>): Promise<void> {
    const answer = new Promise<Reader>((resolve, reject) => {
      this.#onFrame = (frame) => (frame instanceof Error ? reject(frame) : resolve(frame));
    });
    this.sendFrame((to) =>
      ConnectRequest.write(
        {
          protocolVersion: 0,
          lastZxidSeen: options.lastZxidSeen ?? 0,
          timeout: options.timeout ?? 10_000,
          sessionId: options.sessionId ?? 0n,
          password: options.password ?? Buffer.alloc(16),
          readOnly: 'readOnly' in options ? options.readOnly : false,
        },
        to,
      ),
    );
    this.session = ConnectResponse.read(await answer);
    this.#onFrame = undefined;
  }

  get sessionIdHex(): string {
    return this.session.sessionId.toString(16);
  }

  sendFrame(body: (to: Writer) => void): void {
    this.socket.write(frameOf(body));
  }

  /**
   * Sends a request. Resolves with the reply, including its error code; rejects when the connection
   * ends first.
   */
  request<Q, A = void>(
    type: number,
    codec: Codec<Q>,
    value: Q,
    answer?: Codec<A>,
    xid = this.#nextXid++,
  ): Promise<RawReply<A>> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({
        xid,
        settle(frame) {
          if (frame instanceof Error) return reject(frame);
          const header = ReplyHeader.read(frame);
          const body = header.err === 0 ? answer?.read(frame) : undefined;
          resolve({ ...header, body });
        },
      });
      this.sendFrame((to) => {
        to.int(xid);
        to.int(type);
        codec.write(value, to);
      });
    });
  }

  ping(): Promise<RawReply<void>> {
    return this.request(OpCode.ping, Empty, undefined, undefined, Xid.ping);
  }

  /** Resolves once `count` events have arrived in total. */
  async untilEvents(count: number): Promise<RawEvent[]> {
    while (this.events.length < count) {
      await new Promise<void>((resolve) => this.#onEvent.push(resolve));
    }
    return this.events;
  }

  async closeSession(): Promise<void> {
    await this.request(OpCode.closeSession, Empty, undefined);
    await this.closed;
  }

  async drop(): Promise<void> {
    this.socket.destroy();
    await this.closed;
  }

  #take(frame: Reader): void {
    if (this.#onFrame) return this.#onFrame(frame);
    const xid = frame.frame.readInt32BE(0);
    if (xid === Xid.watchEvent) {
      ReplyHeader.read(frame);
      const event = WatcherEvent.read(frame);
      this.events.push(event);
      this.received.push(`event:${event.type}:${event.path}`);
      for (const wake of this.#onEvent.splice(0)) wake();
      return;
    }
    this.received.push(String(xid));
    const next = this.#waiting.shift();
    if (next?.xid !== xid) {
      this.socket.destroy(new Error(`reply ${xid} instead of ${next?.xid}`));
    }
    next?.settle(frame);
  }
}

/**
 * Ends a session as ZooKeeper's own tests do: a second connection attaches to it by id and password
 * and closes it. The client is notified of the expiry when it reconnects.
 */
export async function expireSession(port: number, idHex: string, passwordHex: string) {
  const sessionId = BigInt.asIntN(64, BigInt(`0x${idHex.replace(/^0x/, '')}`));
  const password = Buffer.from(passwordHex, 'hex');
  for (let attempt = 1; attempt <= 20; attempt++) {
    const client = await RawClient.open(port);
    // Both requests are sent together. The session's own client loses its connection, reconnects at
    // once, and may take the session over between the two requests. Then this tries again.
    const connected = client.handshake({ sessionId, password });
    client.sendFrame((to) => {
      to.int(1);
      to.int(OpCode.closeSession);
    });
    const known = await connected.then(
      () => client.session.sessionId !== 0n,
      () => true,
    );
    await client.closed;
    // Only a session that the server does not know has certainly ended.
    if (!known && attempt === 1) throw new Error(`no session ${idHex} with this password`);
    if (!known) return;
  }
  throw new Error(`session ${idHex} did not end`);
}
