import type { Socket } from 'node:net';
import {
  AuthPacket,
  ConnectRequest,
  ConnectResponse,
  ErrorCode,
  type EventType,
  FrameSplitter,
  OpCode,
  ProtocolError,
  Reader,
  ReplyHeader,
  RequestHeader,
  SYNC_CONNECTED,
  WatcherEvent,
  Writer,
  Xid,
} from '../protocol/index.js';
import { digestIdentity, type Identity } from './acl.js';
import { KeeperError } from './keeper-error.js';
import { type Call, operations, type Reply } from './operations.js';
import type { Session } from './sessions.js';
import type { Store } from './store.js';
import type { Watcher } from './watches.js';

/** What a connection asks of the server that accepted it. */
export interface ConnectionHost {
  readonly store: Store;
  negotiate(timeout: number): number;
  /** Closes the connection that has this session, if any. */
  detach(sessionId: bigint): void;
  attach(sessionId: bigint, connection: Connection): void;
  fourLetterWord(word: string): string | undefined;
}

/** More than this unread by the client, and no further request of it is looked at. */
const MAX_UNREAD = 1 << 20;
/** How long a connection may be silent that has no session, or none any more. */
const IDLE_TIMEOUT = 10_000;
const NO_PASSWORD = Buffer.alloc(16);

/** One client's socket: frames in, frames out, in order. */
export class Connection implements Watcher {
  readonly #splitter = new FrameSplitter();
  readonly #output = new Writer();
  readonly #identities: Identity[];
  #session: Session | undefined;
  #timeout = 0;
  #call: Call | undefined;
  #closing = false;
  #flushing = false;

  constructor(
    private readonly socket: Socket,
    private readonly host: ConnectionHost,
  ) {
    const address = (socket.remoteAddress ?? '').replace(/^::ffff:/, '');
    this.#identities = [{ scheme: 'ip', id: address }];
    socket.setNoDelay(true);
    socket.setTimeout(IDLE_TIMEOUT, () => this.destroy());
    socket.on('error', () => this.destroy());
    socket.on('close', () => this.destroy());
    socket.on('data', (chunk: Buffer) => {
      this.#splitter.push(chunk);
      this.#processInput();
    });
    socket.on('drain', () => {
      socket.resume();
      this.#processInput();
    });
  }

  get session(): Session | undefined {
    return this.#session;
  }

  notify(type: EventType, path: string): void {
    if (this.#closing) return;
    this.#send((to) => {
      ReplyHeader.write({ xid: Xid.watchEvent, zxid: -1, err: ErrorCode.ok }, to);
      WatcherEvent.write({ type, state: SYNC_CONNECTED, path }, to);
    });
  }

  /** At once, with whatever was not sent yet. */
  destroy(): void {
    this.#closing = true;
    this.host.store.tree.forgetWatcher(this);
    this.socket.destroy();
  }

  /** After what was answered has left. */
  #end(): void {
    this.#closing = true;
    this.host.store.tree.forgetWatcher(this);
    this.#flush();
    this.socket.setTimeout(IDLE_TIMEOUT);
    this.socket.destroySoon();
  }

  #processInput(): void {
    try {
      while (!this.#closing && !this.#isBlocked()) {
        if (!this.#call && this.#answersFourLetterWord()) return;
        const frame = this.#splitter.next();
        if (!frame) return;
        if (this.#call) this.#answer(this.#call, new Reader(frame));
        else this.#connect(new Reader(frame));
      }
    } catch (error) {
      // Whatever one connection sends, the others must never notice.
      this.destroy();
      if (!(error instanceof ProtocolError)) process.emitWarning(error as Error);
    }
  }

  /** A client that reads slowly is served at its own pace; 'drain' goes on. */
  #isBlocked(): boolean {
    if (this.#output.length + this.socket.writableLength <= MAX_UNREAD) return false;
    this.#flush();
    if (this.socket.writableLength <= MAX_UNREAD) return false;
    this.socket.pause();
    return true;
  }

  #answersFourLetterWord(): boolean {
    const word = this.#splitter.peek()?.toString('latin1');
    const answer = word === undefined ? undefined : this.host.fourLetterWord(word);
    if (answer === undefined) return false;
    this.#closing = true;
    this.socket.end(answer, () => this.socket.destroy());
    return true;
  }

  #connect(frame: Reader): void {
    const request = ConnectRequest.read(frame);
    const { store } = this.host;
    // It has seen a later state than ours: it must find another server.
    if (request.lastZxidSeen > store.lastZxid) return this.destroy();

    this.#timeout = this.host.negotiate(request.timeout);
    const session = this.#openSession(request);
    this.#send((to) =>
      ConnectResponse.write(
        {
          protocolVersion: 0,
          timeout: session ? this.#timeout : 0,
          sessionId: session?.id ?? 0n,
          password: session?.password ?? NO_PASSWORD,
          readOnly: request.readOnly === undefined ? undefined : false,
        },
        to,
      ),
    );
    if (!session) return this.#end();
    this.socket.setTimeout(0);
    this.#session = session;
    this.host.attach(session.id, this);
    this.#call = {
      tree: store.tree,
      caller: { session: session.id, identities: this.#identities },
      watcher: this,
    };
  }

  #openSession({ sessionId, password }: ConnectRequest): Session | undefined {
    const { sessions } = this.host.store;
    const now = performance.now();
    if (sessionId === 0n) {
      this.host.store.begin();
      return sessions.open(this.#timeout, now);
    }
    // The real server closes the session's earlier connection before it looks at the password.
    this.host.detach(sessionId);
    const session = sessions.get(sessionId);
    if (!session || !password || !Buffer.from(session.password).equals(password)) return undefined;
    sessions.touch(session, this.#timeout, now);
    return session;
  }

  #answer(call: Call, body: Reader): void {
    const { xid, type } = RequestHeader.read(body);
    const { store } = this.host;
    store.sessions.touch(this.#session!, this.#timeout, performance.now());
    if (type === OpCode.auth) return this.#authenticate(xid, body);
    if (type === OpCode.closeSession) return this.#closeSession(xid);

    const operation = operations.get(type);
    if (!operation) {
      this.#reply(xid, ErrorCode.unimplemented, -1);
      return this.#end();
    }
    let reply: Reply | undefined;
    let error: number = ErrorCode.ok;
    try {
      reply =
        operation.kind === 'write'
          ? operation.run(call, body, store.begin())
          : operation.run(call, body);
    } catch (thrown) {
      if (thrown instanceof KeeperError) error = thrown.code;
      else if (thrown instanceof ProtocolError) error = ErrorCode.marshallingError;
      else throw thrown;
    }
    this.#reply(xid, error, store.lastZxid, reply);
    // A frame that is no request: whatever follows on this connection cannot be trusted either.
    if (error === ErrorCode.marshallingError) this.#end();
  }

  #authenticate(xid: number, body: Reader): void {
    const { scheme, auth } = AuthPacket.read(body);
    if (scheme === 'digest' && auth) {
      const identity = digestIdentity(auth);
      if (!this.#identities.some(({ id }) => id === identity.id)) this.#identities.push(identity);
    } else if (scheme !== 'ip') {
      this.#reply(xid, ErrorCode.authFailed, 0);
      return this.#end();
    }
    this.#reply(xid, ErrorCode.ok, 0);
  }

  #closeSession(xid: number): void {
    const { store } = this.host;
    store.closeSession(this.#session!.id);
    this.#reply(xid, ErrorCode.ok, store.lastZxid);
    this.#end();
  }

  #reply(xid: number, err: number, zxid: number, body?: Reply): void {
    this.#send((to) => {
      ReplyHeader.write({ xid, zxid, err }, to);
      body?.(to);
    });
  }

  /** Everything sent in one turn of the event loop leaves in one system call. */
  #send(frame: (to: Writer) => void): void {
    this.#output.frame(frame);
    if (this.#flushing) return;
    this.#flushing = true;
    process.nextTick(() => this.#flush());
  }

  #flush(): void {
    this.#flushing = false;
    if (this.#output.length > 0 && !this.socket.destroyed) this.socket.write(this.#output.take());
  }
}
