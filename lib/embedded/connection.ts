import {
  type Acl,
  AuthPacket,
  ConnectRequest,
  ConnectResponse,
  ErrorCode,
  type EventType,
  FrameSplitter,
  OpCode,
  Permission,
  ProtocolError,
  Reader,
  ReplyHeader,
  RequestHeader,
  SYNC_CONNECTED,
  WatcherEvent,
  Xid,
} from '../protocol/index.js';
import { authenticate, type Identity, isAllowed } from './acl.js';
import type { ActiveFaults } from './faults.js';
import { isAnsweredByLeader, lacks, multi, refuseNullPaths, requests } from './multi.js';
import type { Call, Reply } from './operations.js';
import { type ClientStream, Outbox } from './outbox.js';
import type { ServerProfile } from './profiles.js';
import { type ConnectionStore, NO_PASSWORD, type Session } from './store.js';
import type { Watcher } from './watches.js';
import { KeeperError } from './znode.js';

/** The server as its connections use it. */
export interface ConnectionHost {
  readonly profile: ServerProfile;
  readonly store: ConnectionStore;
  readonly faults: ActiveFaults;
  readonly traffic: Traffic;
  /** The digest of the superuser, if there is one. */
  readonly superDigest?: string;
  /** Whether the server reaches the leader of its ensemble. Without it, handshakes, writes and syncs wait. Default true. */
  readonly reachesLeader?: boolean;
  /** Whether the ensemble has a leader. Without one, handshakes are refused. Default true. */
  readonly hasLeader?: boolean;
  negotiate(timeout: number): number;
  /** Closes the connection that has this session, if any. */
  detach(sessionId: bigint): void;
  attach(sessionId: bigint, connection: Connection): void;
  fourLetterWord(word: string, asking: Connection, argument?: Buffer): string | undefined;
}

/** The number of frames received and sent. */
export interface Traffic {
  received: number;
  sent: number;
}

/** The protocol version in the reply of a ClickHouse Keeper that refuses a handshake. */
const REFUSED_VERSION = 42;
/** Bytes that a client may leave unread before the server stops processing its requests. */
const MAX_UNREAD = 1 << 20;
/** Milliseconds after which a connection without a session is closed if it is idle, and at its next byte otherwise. */
const NO_SESSION_TIMEOUT = 10_000;

/** One client's connection. It answers frames in order. */
export class Connection implements Watcher {
  /** The client's address in the form of the real server. */
  readonly remote: string;
  readonly address: string;
  readonly since = new Date();
  readonly #acceptedAt = performance.now();
  readonly traffic: Traffic = { received: 0, sent: 0 };
  /** Whether the server reads from it: not after a four-letter word. */
  reads = true;
  session: Session | undefined;
  /** Milliseconds, as negotiated for this connection. */
  timeout = 0;
  readonly #splitter = new FrameSplitter();
  readonly #outbox: Outbox;
  readonly #identities: Identity[];
  /** The handshake, which is not answered while the connection is cut. */
  #request: ConnectRequest | undefined;
  #call: Call | undefined;
  #closing = false;

  constructor(
    private readonly socket: ClientStream,
    private readonly host: ConnectionHost,
  ) {
    this.address = (socket.remoteAddress ?? '').replace(/^::ffff:/, '');
    this.#identities = [{ scheme: 'ip', id: this.address }];
    this.remote = `/${this.address}:${socket.remotePort}`;
    this.#outbox = new Outbox(
      socket,
      () => host.faults.replyDelay(this.#peer),
      () => this.resume(),
    );
    socket.setNoDelay(true);
    socket.setTimeout(NO_SESSION_TIMEOUT, () => this.close());
    socket.on('error', () => this.destroy());
    socket.on('close', () => this.destroy());
    socket.on('data', (chunk: Buffer) => {
      const age = performance.now() - this.#acceptedAt;
      if (!this.session && age > NO_SESSION_TIMEOUT) return this.close();
      this.#splitter.push(chunk);
      this.#processInput();
    });
    socket.on('drain', () => this.resume());
  }

  /** Continues when the client has read, time has passed, or faults have changed. */
  resume(): void {
    this.#outbox.release();
    this.socket.resume();
    this.#processInput();
  }

  /** The session of the client, or the one that it requests; 0 if it requests a new one. */
  get #peer(): bigint {
    return this.session?.id ?? this.#request?.sessionId ?? 0n;
  }

  notify(type: EventType, path: string, acl?: readonly Acl[]): void {
    if (this.#closing) return;
    // CVE-2024-23944: a watch must not reveal the path of a node that its owner may not read.
    if (acl && this.host.profile.hidesEvents && !isAllowed(acl, Permission.read, this.#identities))
      return;
    this.#send((to) => {
      ReplyHeader.write({ xid: Xid.watchEvent, zxid: -1, err: ErrorCode.ok }, to);
      WatcherEvent.write({ type, state: SYNC_CONNECTED, path }, to);
    });
  }

  /** Closes the connection at once and discards unsent replies. */
  destroy(): void {
    this.#closing = true;
    this.host.store.tree.forgetWatcher(this);
    this.socket.destroy();
  }

  /** Closes the connection. If replies are held back, the client learns of it after them. */
  close(): void {
    if (this.host.faults.replyDelay(this.#peer) === 0) this.destroy();
    else this.#end();
  }

  /** Closes the connection after all replies have been sent. */
  #end(): void {
    this.#closing = true;
    this.host.store.tree.forgetWatcher(this);
    this.#outbox.end();
  }

  #processInput(): void {
    try {
      while (!this.#closing && !this.#isBlocked()) {
        if (!this.#request && this.#answersFourLetterWord()) return;
        if (this.#request && (!this.host.faults.hears(this.#peer) || this.#waitsForLeader()))
          return void this.socket.pause();
        if (this.#request && !this.#call) {
          this.#connect(this.#request);
          continue;
        }
        const frame = this.#splitter.next();
        if (!frame) return;
        this.traffic.received++;
        this.host.traffic.received++;
        const body = new Reader(frame);
        if (this.#call) this.#answer(this.#call, body);
        else this.#request = ConnectRequest.read(body);
      }
    } catch (error) {
      // Input of one connection must never affect the others.
      this.destroy();
      if (!(error instanceof ProtocolError)) process.emitWarning(error as Error);
    }
  }

  /** Whether the next request waits for the leader. Later requests wait behind it, because replies are in order. */
  #waitsForLeader(): boolean {
    if (this.host.reachesLeader !== false) return false;
    const type = this.#splitter.peek(12)?.readInt32BE(8);
    if (this.#call) return isAnsweredByLeader(this.host.profile, type);
    return !this.#isBehind(this.#request!);
  }

  /** Whether the client has seen a later state than this server, so that it must find another one. */
  #isBehind({ lastZxidSeen }: ConnectRequest): boolean {
    const { profile, store } = this.host;
    return profile.checksLastZxid && lastZxidSeen > store.lastZxid;
  }

  /** Pauses a client that reads too slowly; 'drain' resumes it. */
  #isBlocked(): boolean {
    if (this.#outbox.unsent <= MAX_UNREAD) return false;
    this.#outbox.flush();
    if (this.#outbox.unsent <= MAX_UNREAD) return false;
    this.socket.pause();
    return true;
  }

  #answersFourLetterWord(): boolean {
    const word = this.#splitter.peek()?.toString('latin1');
    const argument = this.#splitter.peek(12)?.subarray(4);
    const answer = word === undefined ? undefined : this.host.fourLetterWord(word, this, argument);
    if (answer === undefined) return false;
    this.#closing = true;
    this.socket.end(answer, () => this.socket.destroy());
    return true;
  }

  #connect(request: ConnectRequest): void {
    const { store, profile, hasLeader = true } = this.host;
    if (this.#isBehind(request)) return this.destroy();

    this.timeout = this.host.negotiate(request.timeout);
    const session = hasLeader ? this.#openSession(request) : undefined;
    const response = {
      protocolVersion: session || !profile.marksRefusals ? 0 : REFUSED_VERSION,
      // A refusal because there is no leader has the timeout all the same.
      timeout: session || !hasLeader ? this.timeout : 0,
      sessionId: session?.id ?? 0n,
      password: Buffer.from(session?.password ?? NO_PASSWORD),
      readOnly: profile.repliesReadOnly && request.readOnly !== undefined ? false : undefined,
    };
    this.#send((to) => ConnectResponse.write(response, to));
    if (!session) return this.#end();
    this.socket.setTimeout(0);
    this.session = session;
    this.host.attach(session.id, this);
    const caller = { session: session.id, identities: this.#identities };
    this.#call = { tree: store.tree, caller, watcher: this };
  }

  /** Opens a session, or resumes the one of the request. Returns undefined if it cannot be resumed. */
  #openSession({ sessionId, password }: ConnectRequest): Session | undefined {
    const { store, profile } = this.host;
    const now = store.clock.now();
    if (sessionId === 0n || !profile.resumesSessions) return store.openSession(this.timeout);
    // The real server closes the session's earlier connection before it looks at the password.
    this.host.detach(sessionId);
    const session = store.sessions.get(sessionId);
    if (!session) return undefined;
    if (password === null || !Buffer.from(session.password).equals(password)) return undefined;
    store.sessions.touch(session, this.timeout, now);
    return session;
  }

  #answer(call: Call, body: Reader): void {
    const request = RequestHeader.read(body);
    const { store, profile } = this.host;
    store.touchSession(this.session!, this.timeout);
    if (request.type === OpCode.auth) return this.#authenticate(request, body);
    if (request.type === OpCode.closeSession) return this.#closeSession(request);
    if (lacks(profile, request.type, body)) return this.#answerUnknown(request);
    if (request.type === OpCode.sasl) return this.#answerSasl(request, body);

    const operation = requests[request.type];
    if (!operation) return this.#answerUnknown(request);
    if (request.type === OpCode.sync) store.sync();
    if (profile.emptyTransactions.has(request.type)) store.write(() => {});
    if (request.type === OpCode.ping) request.xid = Xid.ping;
    let reply: Reply | undefined;
    let error: number = ErrorCode.ok;
    const logged = { frame: body.frame, caller: call.caller };
    try {
      if (operation === multi) refuseNullPaths(body);
      reply =
        operation.kind === 'write'
          ? store.write((tree, at) => operation.parse(body.fork())({ ...call, tree }, at), logged)
          : operation.parse(body)(call);
    } catch (thrown) {
      if (thrown instanceof KeeperError) ({ code: error, body: reply } = thrown);
      else if (thrown instanceof ProtocolError) error = ErrorCode.marshallingError;
      else throw thrown;
    }
    this.#reply(request, error, store.lastZxid, reply);
  }

  #answerUnknown(request: RequestHeader): void {
    if (this.host.profile.repliesToUnknown) this.#reply(request, ErrorCode.unimplemented, -1);
    this.#end();
  }

  #authenticate(request: RequestHeader, body: Reader): void {
    const { scheme, auth } = AuthPacket.read(body);
    const { profile, superDigest } = this.host;
    const isOk = authenticate(this.#identities, scheme, auth, profile, superDigest);
    this.#reply(request, isOk ? ErrorCode.ok : ErrorCode.authFailed, 0);
    if (!isOk && profile.closesOnAuthFailure) this.#end();
  }

  /** A real server without SASL replies to a token with null and keeps the connection open. */
  #answerSasl(request: RequestHeader, body: Reader): void {
    if (body.bytes() === null) throw new ProtocolError('a null SASL token');
    this.#reply(request, ErrorCode.ok, 0, (to) => to.bytes(null));
  }

  #closeSession(request: RequestHeader): void {
    const { store, profile } = this.host;
    store.closeSession(this.session!.id);
    if (profile.repliesToClose) this.#reply(request, ErrorCode.ok, store.lastZxid);
    this.#end();
  }

  #reply({ xid, type }: RequestHeader, err: number, zxid: number, body?: Reply): void {
    if (this.host.faults.losesReply(type, this.#peer)) return this.destroy();
    this.#send((to) => {
      ReplyHeader.write({ xid, zxid, err }, to);
      body?.(to);
    });
  }

  #send(frame: Parameters<Outbox['frame']>[0]): void {
    this.traffic.sent++;
    this.host.traffic.sent++;
    this.#outbox.frame(frame);
  }
}
