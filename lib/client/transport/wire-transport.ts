import {
  type Acl as AclRecord,
  type Codec,
  CreateFlag,
  CreateRequest,
  DeleteRequest,
  Empty,
  EventType,
  OpCode,
  PathRequest,
  Permission,
  type Reader,
  ReadRequest,
  SetACLRequest,
  SetDataRequest,
  WatcherType,
  WatchesRequest,
} from '../../protocol/index.js';
import { unreachable } from '../connect-string.js';
import { detached } from '../listeners.js';
import { permissionBits } from '../types.js';
import { refusalOf } from '../reply-errors.js';
import { type ByteStream, type Open, openTcp } from './byte-stream.js';
import { tlsAdvice } from './tls.js';
import {
  type Capabilities,
  Code,
  type Connect,
  type ConnectRequest,
  type Credentials,
  type DownReason,
  type NodeEvent,
  type Reply,
  type Transport,
  type WatchKind,
} from './transport.js';
import type { Acl, Stat } from '../types.js';
import {
  hexadecimal,
  readContent,
  readListing,
  readNothing,
  readPath,
  readStat,
} from './wire-connection.js';
import { type Greeting, WireConnection } from './wire-connection.js';

/** How long a server may take to answer the end of its session, milliseconds. */
const CLOSE_LIMIT = 1000;
const NEW_SESSION: Credentials = { id: '0', password: '00'.repeat(16) };
const OPEN_ACL: readonly AclRecord[] = [{ perms: Permission.all, scheme: 'world', id: 'anyone' }];

const EVENTS: Readonly<Record<EventType, NodeEvent>> = {
  [EventType.created]: 'created',
  [EventType.deleted]: 'deleted',
  [EventType.dataChanged]: 'changed',
  [EventType.childrenChanged]: 'child',
};

/** Attaches a session over a stream of bytes, in this process's own words. */
export function connectWire(open: Open = openTcp): Connect {
  return (request) =>
    new Promise((resolve, reject) => {
      if (request.signal.aborted) return reject(request.signal.reason);
      detached(() => new WireTransport(open(request.address), request, { resolve, reject }));
    });
}

interface Settle {
  resolve(transport: Transport): void;
  reject(reason: unknown): void;
}

class WireTransport implements Transport {
  readonly capabilities: Capabilities = { aclOnCreate: true, promptClose: true };
  readonly #connection: WireConnection;
  readonly #request: ConnectRequest;
  readonly #settle: Settle;
  #phase: 'handshake' | 'up' | 'over' = 'handshake';
  #greeting: Greeting | undefined;
  #unauthenticated: number;

  constructor(stream: ByteStream, request: ConnectRequest, settle: Settle) {
    this.#request = request;
    this.#settle = settle;
    this.#unauthenticated = request.digests.length;
    this.#connection = new WireConnection(stream, {
      greeted: (greeting) => this.#onGreeting(greeting),
      authenticated: (code) => this.#onAuthenticated(code),
      watched: (type, path) => this.#onWatched(type, path),
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
    // Before anything else that this connection asks for.
    for (const digest of request.digests) this.#connection.authenticate(digest);
  }

  get credentials(): Credentials {
    const { sessionId, password } = this.#greeting!;
    return {
      id: hexadecimal(sessionId),
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
    const question = { path, data, acl: acl?.map(toAclRecord) ?? OPEN_ACL, flags };
    return this.#ask(type, CreateRequest, question, readPath, reply);
  }

  delete(path: string, version: number, reply: Reply<void>): boolean {
    return this.#ask(OpCode.delete, DeleteRequest, { path, version }, readNothing, reply);
  }

  get(path: string, watch: boolean, reply: Reply<{ data: Buffer; stat: Stat }>): boolean {
    return this.#ask(OpCode.getData, ReadRequest, { path, watch }, readContent, reply);
  }

  set(path: string, data: Buffer, version: number, reply: Reply<Stat>): boolean {
    return this.#ask(OpCode.setData, SetDataRequest, { path, data, version }, readStat, reply);
  }

  exists(path: string, watch: boolean, reply: Reply<Stat>): boolean {
    return this.#ask(OpCode.exists, ReadRequest, { path, watch }, readStat, reply);
  }

  children(
    path: string,
    watch: boolean,
    reply: Reply<{ children: string[]; stat: Stat }>,
  ): boolean {
    return this.#ask(OpCode.getChildren2, ReadRequest, { path, watch }, readListing, reply);
  }

  sync(path: string, reply: Reply<void>): boolean {
    return this.#ask(OpCode.sync, PathRequest, { path }, readNothing, reply);
  }

  setAcl(path: string, acl: readonly Acl[], version: number, reply: Reply<void>): boolean {
    const question = { path, acl: acl.map(toAclRecord), version };
    return this.#ask(OpCode.setACL, SetACLRequest, question, readNothing, reply);
  }

  removeWatch(path: string, kind: WatchKind, reply: Reply<void>): boolean {
    const question = { path, type: WatcherType[kind] };
    return this.#ask(OpCode.removeWatches, WatchesRequest, question, readNothing, reply);
  }

  async close(): Promise<boolean> {
    if (this.#phase === 'over') return false;
    this.#end('over');
    const answered = await new Promise<boolean>((resolve) => {
      const timer = setTimeout(resolve, CLOSE_LIMIT, false);
      const done = (code: number) => {
        clearTimeout(timer);
        resolve(code === Code.Ok);
      };
      const { closeSession } = OpCode;
      if (!this.#connection.request(closeSession, Empty, undefined, readNothing, done)) {
        done(Code.ConnectionLoss);
      }
    });
    this.#connection.drop();
    return answered;
  }

  abandon(): void {
    if (this.#phase === 'over') return;
    this.#end('over');
    this.#connection.drop();
  }

  #ask<Q, T>(
    type: number,
    asking: Codec<Q>,
    question: Q,
    read: (from: Reader) => T,
    reply: Reply<T>,
  ): boolean {
    if (this.#phase !== 'up') return false;
    // Without an answer the code says so, and nobody looks at the result.
    const settle = reply as (code: number, answer: T | undefined) => void;
    return this.#connection.request(type, asking, question, read, settle);
  }

  #onGreeting(greeting: Greeting): void {
    const { credentials } = this.#request;
    const known = credentials === undefined || hexadecimal(greeting.sessionId) === credentials.id;
    // A server that hands out another session has ended the old one (ClickHouse Keeper, in silence).
    if (greeting.timeout <= 0 || !known) return this.#break('expired', 'it made no session');
    if (greeting.readOnly) return this.#break('disconnected', 'it is read-only');
    this.#greeting = greeting;
    this.#attached();
  }

  #onAuthenticated(code: number): void {
    if (code !== Code.Ok) return this.#break('unauthorized', 'it refused the credentials');
    this.#unauthenticated--;
    this.#attached();
  }

  #attached(): void {
    if (this.#phase !== 'handshake' || !this.#greeting || this.#unauthenticated > 0) return;
    this.#end('up');
    this.#settle.resolve(this);
  }

  #onWatched(type: EventType, path: string): void {
    const event = EVENTS[type];
    if (event && this.#phase === 'up') this.#request.listener.onWatch(event, path);
  }

  readonly #onAbort = (): void => {
    this.#end('over');
    this.#connection.drop();
    this.#settle.reject(this.#request.signal.reason);
  };

  #break(reason: DownReason, why: string, cause?: Error): void {
    const phase = this.#phase;
    if (phase === 'over') return;
    this.#end('over');
    this.#connection.drop();
    if (phase === 'up') this.#request.listener.onDown(reason);
    else this.#settle.reject(this.#refusal(reason, why, cause));
  }

  #refusal(reason: DownReason, why: string, cause: Error | undefined): Error {
    if (cause && 'syscall' in cause && cause.syscall === 'connect') {
      return unreachable(this.#request.address, cause);
    }
    const advice = cause && tlsAdvice(cause);
    const said = advice ? `${why.trim()}; ${advice}` : why;
    return refusalOf(this.#request, reason, said, cause);
  }

  #end(next: 'up' | 'over'): void {
    this.#phase = next;
    this.#request.signal.removeEventListener('abort', this.#onAbort);
  }
}

function toAclRecord({ scheme, id, permissions }: Acl): AclRecord {
  return { perms: permissionBits(permissions), scheme, id };
}
