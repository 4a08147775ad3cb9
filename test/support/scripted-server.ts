import { once } from 'node:events';
import net from 'node:net';
import { type Duplex, duplexPair } from 'node:stream';
import {
  ConnectRequest,
  ConnectResponse,
  FrameSplitter,
  Reader,
  ReplyHeader,
  RequestHeader,
  sessionPassword,
  type ValueOf,
  WatcherEvent,
  type Writer,
  Xid,
} from '../../lib/protocol/index.js';
import { frameOf } from './frames.js';

type Greeting = ValueOf<typeof ConnectResponse>;

export interface Asked {
  readonly xid: number;
  readonly type: number;
  readonly from: Reader;
}

/**
 * The behaviour of the server. Without `onConnect` it creates a session; without `onRequest` it
 * never replies.
 */
export interface Script {
  onConnect?(peer: Peer): void;
  onRequest?(peer: Peer, asked: Asked): void;
}

/** One connection, as the server sees it. */
export class Peer {
  hello!: ValueOf<typeof ConnectRequest>;
  readonly asked: Asked[] = [];
  readonly closed: Promise<unknown>;
  #chunk: Buffer[] | undefined;

  constructor(readonly socket: net.Socket) {
    this.closed = new Promise((resolve) => socket.once('close', resolve));
  }

  greet(greeting: Partial<Greeting> = {}): void {
    const { timeout, sessionId: asked } = this.hello;
    const sessionId = asked === 0n ? 0x1234n : asked;
    const password = sessionPassword(sessionId);
    const usual = { protocolVersion: 0, timeout, sessionId, password, readOnly: false };
    this.send((to) => ConnectResponse.write({ ...usual, ...greeting }, to));
  }

  reply(xid: number, body: (to: Writer) => void = () => {}, header = { zxid: 1, err: 0 }): void {
    this.send((to) => {
      ReplyHeader.write({ xid, ...header }, to);
      body(to);
    });
  }

  refuse(xid: number, err: number): void {
    this.reply(xid, undefined, { zxid: 1, err });
  }

  event(type: number, path: string): void {
    this.reply(Xid.watchEvent, (to) => WatcherEvent.write({ type, state: 3, path }, to), {
      zxid: -1,
      err: 0,
    });
  }

  send(body: (to: Writer) => void): void {
    if (this.#chunk) this.#chunk.push(frameOf(body));
    else if (this.socket.writable) this.socket.write(frameOf(body));
  }

  /** Sends all that `send` sends together, so that the client reads it at once. */
  inOneChunk(send: () => void): void {
    const chunk = (this.#chunk = [] as Buffer[]);
    send();
    this.#chunk = undefined;
    this.socket.write(Buffer.concat(chunk));
  }
}

/** A server of ZooKeeper's protocol whose replies are written by the test. */
export class ScriptedServer implements AsyncDisposable {
  readonly #server: net.Server;

  private constructor(
    readonly script: Script,
    readonly peers: Peer[] = [],
  ) {
    this.#server = net.createServer((socket) => this.#onConnection(socket));
  }

  static async start(script: Script = {}): Promise<ScriptedServer> {
    const server = new ScriptedServer(script);
    await once(server.#server.listen(0, '127.0.0.1'), 'listening');
    return server;
  }

  /** Opens a connection to the server within this process, for tests in virtual time. */
  static connect(script: Script, peers: Peer[] = []): Duplex {
    const [client, accepted] = duplexPair();
    for (const [one, other] of [
      [client, accepted],
      [accepted, client],
    ] as const) {
      one.on('close', () => setImmediate(() => other.destroy()));
    }
    new ScriptedServer(script, peers).#onConnection(accepted as net.Socket);
    return client;
  }

  get port(): number {
    return (this.#server.address() as net.AddressInfo).port;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = once(this.#server, 'close');
    this.#server.close();
    for (const { socket } of this.peers) socket.destroy();
    await closed;
  }

  #onConnection(socket: net.Socket): void {
    const peer = new Peer(socket);
    this.peers.push(peer);
    const splitter = new FrameSplitter(0x7fff_ffff);
    socket.on('error', () => {});
    socket.on('data', (chunk: Buffer) => {
      splitter.push(chunk);
      for (let frame = splitter.next(); frame; frame = splitter.next()) {
        this.#onFrame(peer, new Reader(frame));
      }
    });
  }

  #onFrame(peer: Peer, from: Reader): void {
    if (!peer.hello) {
      peer.hello = ConnectRequest.read(from);
      if (this.script.onConnect) this.script.onConnect(peer);
      else peer.greet();
      return;
    }
    const asked = { ...RequestHeader.read(from), from };
    peer.asked.push(asked);
    this.script.onRequest?.(peer, asked);
  }
}
