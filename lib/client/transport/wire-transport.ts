import { connect as connectTcp } from 'node:net';
import {
  type Acl as AclRecord,
  CreateFlag,
  CreateRequest,
  DeleteRequest,
  ErrorCode,
  GetChildren2Response,
  GetDataResponse,
  OpCode,
  PathRequest,
  PathResponse,
  Permission,
  type Reader,
  ReadRequest,
  SetACLRequest,
  SetDataRequest,
  Stat as StatRecord,
  WatcherType,
  WatchesRequest,
} from '../../protocol/index.js';
import { detached } from '../listeners.js';
import type { Acl, Stat } from '../types.js';
import { tlsAdvice } from './tls.js';
import {
  attachError,
  type Address,
  type Connect,
  type ConnectRequest,
  type Credentials,
  type DownReason,
  permissionBits,
  type Reply,
  type Transport,
  unreachableError,
  type WatchKind,
} from './transport.js';
import { type ByteStream, type Greeting, WireConnection } from './wire-connection.js';

const NEW_SESSION: Credentials = { id: '0', password: '00'.repeat(16) };
const OPEN_ACL: readonly AclRecord[] = [{ perms: Permission.all, scheme: 'world', id: 'anyone' }];

/** Opens a stream to a server. */
export type Open = (address: Address) => ByteStream;

const openTcp: Open = ({ ip, port }) => connectTcp({ host: ip, port, noDelay: true });

/** Attaches sessions with ZooKeeper's protocol over streams that `open` opens. */
export function connectWire(open: Open = openTcp): Connect {
  return (request) =>
    new Promise((resolve, reject) => {
      if (request.signal.aborted) return reject(request.signal.reason);
      detached(() => new WireTransport(open(request.address), request, resolve, reject));
    });
}

class WireTransport implements Transport {
  readonly aclOnCreate = true;
  readonly promptClose = true;
  readonly #connection: WireConnection;
  #phase: 'handshake' | 'up' | 'over' = 'handshake';
  #greeting: Greeting | undefined;
  #unauthenticated: number;

  constructor(
    stream: ByteStream,
    private readonly request: ConnectRequest,
    private readonly resolve: (transport: Transport) => void,
    private readonly reject: (reason: unknown) => void,
  ) {
    this.#unauthenticated = request.digests.length;
    this.#connection = new WireConnection(stream, {
      greeted: (greeting) => this.#onGreeting(greeting),
      authenticated: (code) => {
        if (code !== ErrorCode.ok) return this.#break('unauthorized', 'it refused the credentials');
        this.#unauthenticated--;
        this.#attachIfReady();
      },
      watched: (event, path) => {
        if (this.#phase === 'up') request.listener.onWatch(event, path);
      },
      down: (cause) => this.#break('disconnected', cause?.message ?? 'the connection broke', cause),
    });
    request.signal.addEventListener('abort', this.#onAbort, { once: true });
    const { id, password, lastZxid = 0 } = request.credentials ?? NEW_SESSION;
    this.#connection.greet({
      protocolVersion: 0,
      lastZxidSeen: lastZxid,
      timeout: request.sessionTimeout,
      sessionId: BigInt.asIntN(64, BigInt(`0x${id}`)),
      password: Buffer.from(password, 'hex'),
      readOnly: false,
    });
    // Sent before any request of this connection.
    for (const digest of request.digests) this.#connection.authenticate(digest);
  }

  get credentials(): Credentials {
    const { sessionId, password } = this.#greeting!;
    return {
      id: toHexadecimal(sessionId),
      password: Buffer.from(password ?? []).toString('hex'),
      lastZxid: this.#connection.lastZxid,
    };
  }

  get timeout(): number {
    return this.#greeting!.timeout;
  }

  create(
    path: string,
    data: Buffer,
    flags: number,
    acl: readonly Acl[] | undefined,
    reply: Reply<string>,
  ): boolean {
    const type = flags === CreateFlag.container ? OpCode.createContainer : OpCode.create;
    const request = { path, data, acl: acl?.map(toRecord) ?? OPEN_ACL, flags };
    const read = (from: Reader) => PathResponse.read(from).path;
    return this.#connection.request(type, CreateRequest, request, reply, read);
  }

  delete(path: string, version: number, reply: Reply<void>): boolean {
    return this.#connection.request(OpCode.delete, DeleteRequest, { path, version }, reply);
  }

  get(path: string, watch: boolean, reply: Reply<{ data: Buffer; stat: Stat }>): boolean {
    return this.#connection.request(OpCode.getData, ReadRequest, { path, watch }, reply, (from) => {
      const { data, stat } = GetDataResponse.read(from);
      // A copy: a view would keep everything in memory that arrived with it.
      return { data: Buffer.from(data ?? []), stat: toStat(stat) };
    });
  }

  set(path: string, data: Buffer, version: number, reply: Reply<Stat>): boolean {
    const request = { path, data, version };
    return this.#connection.request(OpCode.setData, SetDataRequest, request, reply, readStat);
  }

  exists(path: string, watch: boolean, reply: Reply<Stat>): boolean {
    const request = { path, watch };
    return this.#connection.request(OpCode.exists, ReadRequest, request, reply, readStat);
  }

  children(
    path: string,
    watch: boolean,
    reply: Reply<{ children: string[]; stat: Stat }>,
  ): boolean {
    const request = { path, watch };
    return this.#connection.request(OpCode.getChildren2, ReadRequest, request, reply, (from) => {
      const { children, stat } = GetChildren2Response.read(from);
      return { children: [...children], stat: toStat(stat) };
    });
  }

  sync(path: string, reply: Reply<void>): boolean {
    return this.#connection.request(OpCode.sync, PathRequest, { path }, reply);
  }

  setAcl(path: string, acl: readonly Acl[], version: number, reply: Reply<void>): boolean {
    const request = { path, acl: acl.map(toRecord), version };
    return this.#connection.request(OpCode.setACL, SetACLRequest, request, reply);
  }

  removeWatch(path: string, kind: WatchKind, reply: Reply<void>): boolean {
    const request = { path, type: WatcherType[kind] };
    return this.#connection.request(OpCode.removeWatches, WatchesRequest, request, reply);
  }

  async close(): Promise<boolean> {
    if (this.#phase === 'over') return false;
    this.#enter('over');
    return this.#connection.close();
  }

  abandon(): void {
    if (this.#phase === 'over') return;
    this.#enter('over');
    this.#connection.drop();
  }

  #onGreeting(greeting: Greeting): void {
    const { credentials } = this.request;
    const known = credentials === undefined || toHexadecimal(greeting.sessionId) === credentials.id;
    // ClickHouse Keeper grants another session if it has ended the requested one.
    if (greeting.timeout <= 0 || !known) return this.#break('expired', 'it made no session');
    if (greeting.readOnly) return this.#break('disconnected', 'it is read-only');
    this.#greeting = greeting;
    this.#attachIfReady();
  }

  #attachIfReady(): void {
    if (this.#phase !== 'handshake' || !this.#greeting || this.#unauthenticated > 0) return;
    this.#enter('up');
    this.resolve(this);
  }

  readonly #onAbort = (): void => {
    this.#enter('over');
    this.#connection.drop();
    this.reject(this.request.signal.reason);
  };

  #break(reason: DownReason, why: string, cause?: Error): void {
    const phase = this.#phase;
    if (phase === 'over') return;
    this.#enter('over');
    this.#connection.drop();
    if (phase === 'up') this.request.listener.onDown(reason);
    else this.reject(this.#connectError(reason, why, cause));
  }

  #connectError(reason: DownReason, why: string, cause: Error | undefined): Error {
    if (cause && 'syscall' in cause && cause.syscall === 'connect') {
      return unreachableError(this.request.address, cause);
    }
    const advice = cause && tlsAdvice(cause);
    return attachError(this.request, reason, advice ? `${why.trim()}; ${advice}` : why, cause);
  }

  /** Leaves the handshake, or the phase `up`. */
  #enter(phase: 'up' | 'over'): void {
    this.#phase = phase;
    this.request.signal.removeEventListener('abort', this.#onAbort);
  }
}

function toRecord({ scheme, id, permissions }: Acl): AclRecord {
  return { perms: permissionBits(permissions), scheme, id };
}

function toStat(stat: StatRecord): Stat {
  return { ...stat, ephemeralOwner: toHexadecimal(stat.ephemeralOwner) };
}

function readStat(from: Reader): Stat {
  return toStat(StatRecord.read(from));
}

function toHexadecimal(sessionId: bigint): string {
  return BigInt.asUintN(64, sessionId).toString(16);
}
