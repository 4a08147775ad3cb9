import { connect as connectTcp } from 'node:net';
import type { Duplex } from 'node:stream';
import {
  type Acl as AclRecord,
  type Codec,
  Create2Response,
  CreateFlag,
  CreateRequest,
  DeleteRequest,
  Empty,
  EventType,
  GetChildren2Response,
  GetDataResponse,
  OpCode,
  PathRequest,
  PathResponse,
  ReadRequest,
  SetACLRequest,
  SetDataRequest,
  type Stat as StatRecord,
  StatResponse,
  WatcherType,
  WatchesRequest,
} from '../protocol/index.js';
import { unreachable } from './addresses.js';
import { detached } from './detached.js';
import { ConnectionError, NotAuthorizedError, SessionExpiredError } from './errors.js';
import { permissionBits } from './permissions.js';
import {
  type Capabilities,
  Code,
  type Address,
  type Connect,
  type ConnectRequest,
  type Credentials,
  type DownReason,
  type NodeEvent,
  type Reply,
  type Transport,
  type WatchKind,
} from './transport.js';
import type { Acl, Stat } from './types.js';
import { type Greeting, WireConnection } from './wire-connection.js';

/** How long a server may take to answer the end of its session, milliseconds. */
const CLOSE_LIMIT = 1000;
const NEW_SESSION: Credentials = { id: '0', password: '00'.repeat(16) };
const OPEN_ACL: readonly Acl[] = [{ scheme: 'world', id: 'anyone', permissions: 'rwcda' }];

const EVENTS: Readonly<Record<EventType, NodeEvent>> = {
  [EventType.created]: 'created',
  [EventType.deleted]: 'deleted',
  [EventType.dataChanged]: 'changed',
  [EventType.childrenChanged]: 'child',
};

/** Opens the stream to a server. */
export type Open = (address: Address) => Duplex;

export const openTcp: Open = ({ ip, port }) => connectTcp({ host: ip, port, noDelay: true });

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
  readonly capabilities: Capabilities = { aclOnCreate: true, removeWatch: true };
  readonly #connection: WireConnection;
  readonly #request: ConnectRequest;
  readonly #settle: Settle;
  #phase: 'handshake' | 'up' | 'over' = 'handshake';
  #greeting: Greeting | undefined;
  #unauthenticated: number;

  constructor(stream: Duplex, request: ConnectRequest, settle: Settle) {
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
    acl: readonly Acl[] = OPEN_ACL,
    reply: Reply<string>,
  ): boolean {
    const question = { path, data, acl: acl.map(toAclRecord), flags };
    const result = (answer: { path: string }) => answer.path;
    return flags === CreateFlag.container
      ? this.#ask(OpCode.createContainer, CreateRequest, question, Create2Response, result, reply)
      : this.#ask(OpCode.create, CreateRequest, question, PathResponse, result, reply);
  }

  delete(path: string, version: number, reply: Reply<void>): boolean {
    return this.#ask(OpCode.delete, DeleteRequest, { path, version }, Empty, nothing, reply);
  }

  get(path: string, watch: boolean, reply: Reply<{ data: Buffer; stat: Stat }>): boolean {
    return this.#ask(
      OpCode.getData,
      ReadRequest,
      { path, watch },
      GetDataResponse,
      // A copy: what the answer holds is a view of all that came with it.
      ({ data, stat }) => ({ data: Buffer.from(data ?? []), stat: toStat(stat) }),
      reply,
    );
  }

  set(path: string, data: Buffer, version: number, reply: Reply<Stat>): boolean {
    const question = { path, data, version };
    return this.#ask(OpCode.setData, SetDataRequest, question, StatResponse, statOf, reply);
  }

  exists(path: string, watch: boolean, reply: Reply<Stat>): boolean {
    return this.#ask(OpCode.exists, ReadRequest, { path, watch }, StatResponse, statOf, reply);
  }

  children(
    path: string,
    watch: boolean,
    reply: Reply<{ children: string[]; stat: Stat }>,
  ): boolean {
    return this.#ask(
      OpCode.getChildren2,
      ReadRequest,
      { path, watch },
      GetChildren2Response,
      ({ children, stat }) => ({ children: [...children], stat: toStat(stat) }),
      reply,
    );
  }

  sync(path: string, reply: Reply<void>): boolean {
    return this.#ask(OpCode.sync, PathRequest, { path }, PathResponse, nothing, reply);
  }

  setAcl(path: string, acl: readonly Acl[], version: number, reply: Reply<void>): boolean {
    const question = { path, acl: acl.map(toAclRecord), version };
    return this.#ask(OpCode.setACL, SetACLRequest, question, StatResponse, nothing, reply);
  }

  removeWatch(path: string, kind: WatchKind, reply: Reply<void>): boolean {
    const question = { path, type: WatcherType[kind] };
    return this.#ask(OpCode.removeWatches, WatchesRequest, question, Empty, nothing, reply);
  }

  async close(): Promise<void> {
    if (this.#phase === 'over') return;
    this.#end('over');
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, CLOSE_LIMIT);
      const done = () => {
        clearTimeout(timer);
        resolve();
      };
      if (!this.#connection.request(OpCode.closeSession, Empty, undefined, Empty, done)) done();
    });
    this.#connection.drop();
  }

  abandon(): void {
    if (this.#phase === 'over') return;
    this.#end('over');
    this.#connection.drop();
  }

  #ask<Q, A, T>(
    type: number,
    asking: Codec<Q>,
    question: Q,
    answering: Codec<A>,
    result: (answer: A) => T,
    reply: Reply<T>,
  ): boolean {
    if (this.#phase !== 'up') return false;
    return this.#connection.request(type, asking, question, answering, (code, answer) =>
      reply(code, (code === Code.Ok ? result(answer as A) : undefined) as T),
    );
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
    const { address, credentials } = this.#request;
    if (reason === 'unauthorized') {
      return new NotAuthorizedError(`${address.label} refused the credentials in auth`);
    }
    if (reason === 'expired' && credentials) {
      const { id } = credentials;
      return new SessionExpiredError(`session ${id} is over: ${address.label} does not know it`);
    }
    if (cause && 'syscall' in cause && cause.syscall === 'connect')
      return unreachable(address, cause);
    return new ConnectionError(`${address.label} did not attach a session: ${why}`, { cause });
  }

  #end(next: 'up' | 'over'): void {
    this.#phase = next;
    this.#request.signal.removeEventListener('abort', this.#onAbort);
  }
}

function nothing(): void {}

function statOf({ stat }: { stat: StatRecord }): Stat {
  return toStat(stat);
}

function toStat({ ephemeralOwner, ...stat }: StatRecord): Stat {
  return { ...stat, ephemeralOwner: hexadecimal(ephemeralOwner) };
}

function hexadecimal(id: bigint): string {
  return BigInt.asUintN(64, id).toString(16);
}

function toAclRecord({ scheme, id, permissions }: Acl): AclRecord {
  return { perms: permissionBits(permissions), scheme, id };
}
