import { strictEqual } from 'node:assert';
import {
  type Acl,
  AddWatchRequest,
  AuthPacket,
  CheckVersionRequest,
  CheckWatchesRequest,
  type Codec,
  Create2Response,
  CreateFlag,
  CreateRequest,
  CreateTTLRequest,
  DeleteRequest,
  Empty,
  ErrorResponse,
  GetACLResponse,
  GetAllChildrenNumberResponse,
  GetChildren2Response,
  GetChildrenResponse,
  GetDataResponse,
  GetEphemeralsResponse,
  OpCode,
  PathRequest,
  PathResponse,
  ReadRequest,
  RemoveWatchesRequest,
  SetACLRequest,
  SetDataRequest,
  SetWatches,
  SetWatches2,
  type Stat,
  StatResponse,
  type ValueOf,
  WhoAmIResponse,
  Xid,
} from '../../lib/protocol/index.js';
import { MultiRequest, MultiResponse, type MultiStep } from './multi-records.js';
import type { RawClient, RawReply } from './raw-client.js';
import { OPEN } from './raw-requests.js';
import type { Recorder } from './server-recorder.js';

/** An error code, or 'any' where the two servers must agree but no test says on which code. */
export type Expected = number | 'any';

/** One connection of a script, which records what the server sends. */
class RecordedConnection {
  constructor(
    readonly name: string,
    readonly raw: RawClient,
    private readonly recorder: Recorder,
  ) {}

  /** Sends a request of any type with these bytes as its body. */
  async send(type: number, body: Uint8Array, err: Expected): Promise<void> {
    const verbatim: Codec<Uint8Array> = {
      read: () => body,
      write: (bytes, to) => {
        for (const byte of bytes) to.bool(byte !== 0);
      },
    };
    await this.ask(`request ${type}`, err, type, verbatim, body, Empty);
  }

  async closed(): Promise<void> {
    await this.raw.closed;
    this.recorder.note(this.name, 'closed');
  }

  async events(count: number): Promise<void> {
    await this.raw.untilEvents(count);
    strictEqual(this.raw.events.length, count, `${this.name} received more events than ${count}`);
    this.recorder.note(this.name, 'events', this.raw.events.slice());
  }

  /** Returns the body of a reply whose error code must be `err`. */
  async ask<Q, A>(
    ask: string,
    err: Expected,
    type: number,
    codec: Codec<Q>,
    value: Q,
    answer: Codec<A>,
    xid?: number,
  ): Promise<A | undefined> {
    const reply: RawReply<A> = await this.raw.request(type, codec, value, answer, xid);
    this.recorder.note(
      this.name,
      ask,
      reply.err,
      this.recorder.zxid(reply.zxid),
      this.#shared(reply.body),
    );
    if (err !== 'any') strictEqual(reply.err, err, `${this.name}: ${ask}`);
    return reply.body;
  }

  #shared(body: unknown): unknown {
    if (typeof body !== 'object' || body === null) return body;
    const { stat, children, data, ephemerals, clientInfo, results, ...rest } = body as {
      stat?: Stat;
      children?: string[];
      data?: Buffer;
      ephemerals?: string[];
      clientInfo?: { scheme: string; user: string }[];
      results?: unknown[];
    };
    return {
      ...rest,
      ...(stat && { stat: this.recorder.stat(stat) }),
      // The order is that of a hash table. Here, a failed multi may change the order of children
      // with equal hashes.
      ...(children && { children: children.toSorted() }),
      ...(ephemerals && { ephemerals: ephemerals.toSorted() }),
      ...(clientInfo && {
        clientInfo: clientInfo.map(({ scheme, user }) => `${scheme} ${user}`).sort(),
      }),
      ...(results && { results: results.map((result) => this.#shared(result)) }),
      ...(data !== undefined && { data: data && Buffer.from(data).toString('latin1') }),
    };
  }
}

interface CreateOptions {
  data?: Uint8Array | string | null;
  acl?: Acl[];
  flags?: number;
  op?: number;
  ttl?: number;
}

/**
 * Requests of a script over one connection. The last argument of each call is the error code that
 * the reply must have.
 */
export class RecordedClient extends RecordedConnection {
  async create(path: string, options: CreateOptions = {}, err: Expected = 0): Promise<string> {
    const {
      data = 'data',
      acl = OPEN,
      flags = CreateFlag.persistent,
      op = OpCode.create,
    } = options;
    const request = { path, data: bytesOf(data), acl, flags };
    const name = `create ${op} ${flags} ${path}`;
    const ttl = options.ttl!;
    const body =
      op === OpCode.create
        ? await this.ask(name, err, op, CreateRequest, request, PathResponse)
        : op === OpCode.createTTL
          ? await this.ask(name, err, op, CreateTTLRequest, { ...request, ttl }, Create2Response)
          : await this.ask(name, err, op, CreateRequest, request, Create2Response);
    return body?.path ?? '';
  }

  async createAll(...paths: string[]): Promise<void> {
    for (const path of paths) await this.create(path);
  }

  delete(path: string, version = -1, err: Expected = 0) {
    return this.#send('delete', DeleteRequest, { path, version }, Empty, err);
  }

  set(path: string, data: Uint8Array | string | null, version = -1, err: Expected = 0) {
    const request = { path, version, data: bytesOf(data) };
    return this.#send('setData', SetDataRequest, request, StatResponse, err);
  }

  exists(path: string, watch = false, err: Expected = 0) {
    return this.#send('exists', ReadRequest, { path, watch }, StatResponse, err);
  }

  get(path: string, watch = false, err: Expected = 0) {
    return this.#send('getData', ReadRequest, { path, watch }, GetDataResponse, err);
  }

  children(path: string, watch = false, err: Expected = 0) {
    return this.#send('getChildren', ReadRequest, { path, watch }, GetChildrenResponse, err);
  }

  async children2(path: string, watch = false, err: Expected = 0): Promise<string[]> {
    const request = { path, watch };
    const body = await this.#send('getChildren2', ReadRequest, request, GetChildren2Response, err);
    return [...(body?.children ?? [])].sort();
  }

  getAcl(path: string, err: Expected = 0) {
    return this.#send('getACL', PathRequest, { path }, GetACLResponse, err);
  }

  setAcl(path: string, acl: Acl[], version = -1, err: Expected = 0) {
    return this.#send('setACL', SetACLRequest, { path, acl, version }, StatResponse, err);
  }

  sync(path: string) {
    return this.#send('sync', PathRequest, { path }, PathResponse);
  }

  ping() {
    return this.#send('ping', Empty, undefined, Empty, 0, Xid.ping);
  }

  auth(credentials: string, scheme = 'digest', err: Expected = 0) {
    const request = { type: 0, scheme, auth: Buffer.from(credentials) };
    return this.#send('auth', AuthPacket, request, Empty, err, Xid.auth);
  }

  setWatches(relativeZxid: number, data: string[], exist: string[], child: string[]) {
    const request = { relativeZxid, dataWatches: data, existWatches: exist, childWatches: child };
    return this.#send('setWatches', SetWatches, request, Empty, 0, Xid.setWatches);
  }

  setWatches2(request: ValueOf<typeof SetWatches2>) {
    return this.#send('setWatches2', SetWatches2, request, Empty, 0, Xid.setWatches);
  }

  async close(): Promise<void> {
    await this.#send('closeSession', Empty, undefined, Empty);
    await this.closed();
  }

  addWatch(path: string, mode: number, err: Expected = 0) {
    return this.#send('addWatch', AddWatchRequest, { path, mode }, ErrorResponse, err);
  }

  checkWatches(path: string, type: number, err: Expected = 0) {
    return this.#send('checkWatches', CheckWatchesRequest, { path, type }, Empty, err);
  }

  removeWatches(path: string, type: number, err: Expected = 0) {
    return this.#send('removeWatches', RemoveWatchesRequest, { path, type }, Empty, err);
  }

  ephemerals(path: string) {
    return this.#send('getEphemerals', PathRequest, { path }, GetEphemeralsResponse);
  }

  countBelow(path: string, err: Expected = 0) {
    const answer = GetAllChildrenNumberResponse;
    return this.#send('getAllChildrenNumber', PathRequest, { path }, answer, err);
  }

  whoAmI() {
    return this.#send('whoAmI', Empty, undefined, WhoAmIResponse);
  }

  check(path: string, version: number, err: Expected) {
    return this.#send('check', CheckVersionRequest, { path, version }, Empty, err);
  }

  /** Returns the error codes of the results. */
  async multi(steps: readonly MultiStep[], err: Expected = 0, op: number = OpCode.multi) {
    const name = `multi ${steps.map(({ type, path }) => `${type} ${path}`).join(', ')}`;
    const body = await this.ask(name, err, op, MultiRequest, steps, MultiResponse);
    return body?.results.map((result) => result.err);
  }

  #send<Q, A>(
    name: keyof typeof OpCode,
    codec: Codec<Q>,
    request: Q,
    answer: Codec<A>,
    err: Expected = 0,
    xid?: number,
  ): Promise<A | undefined> {
    const { path, version } = (request ?? {}) as { path?: string; version?: number };
    const text = [name, path, version].filter((part) => part !== undefined).join(' ');
    return this.ask(text, err, OpCode[name], codec, request, answer, xid);
  }
}

const bytesOf = (data: Uint8Array | string | null) =>
  typeof data === 'string' ? Buffer.from(data) : data;
