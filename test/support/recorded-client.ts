import { strictEqual } from 'node:assert';
import {
  type Acl,
  AuthPacket,
  type Codec,
  Create2Response,
  CreateFlag,
  CreateRequest,
  CreateTTLRequest,
  DeleteRequest,
  Empty,
  GetACLResponse,
  GetChildren2Response,
  GetChildrenResponse,
  GetDataResponse,
  OpCode,
  PathRequest,
  PathResponse,
  Permission,
  ReadRequest,
  SetACLRequest,
  SetDataRequest,
  SetWatches,
  type Stat,
  StatResponse,
  Xid,
} from '../../lib/protocol/index.js';
import type { RawClient, RawReply } from './raw-client.js';
import type { Recorder } from './server-recorder.js';

export const OPEN: Acl[] = [{ perms: Permission.all, scheme: 'world', id: 'anyone' }];

/** An error code; 'any' where two servers shall agree and neither is told on what. */
type Expected = number | 'any';

interface CreateOptions {
  data?: Uint8Array | string | null;
  acl?: Acl[];
  flags?: number;
  op?: number;
  ttl?: number;
}

/** One connection of a script; the last argument of each call is the error code it must be answered with. */
export class RecordedClient {
  constructor(
    readonly name: string,
    readonly raw: RawClient,
    private readonly recorder: Recorder,
  ) {}

  async create(path: string, options: CreateOptions = {}, err: Expected = 0): Promise<string> {
    const {
      data = 'data',
      acl = OPEN,
      flags = CreateFlag.persistent,
      op = OpCode.create,
    } = options;
    const request = { path, data: typeof data === 'string' ? Buffer.from(data) : data, acl, flags };
    const ask = `create ${op} ${flags} ${path}`;
    if (op === OpCode.create) {
      return (await this.#ask(ask, err, op, CreateRequest, request, PathResponse))?.path ?? '';
    }
    const answer =
      op === OpCode.createTTL
        ? await this.#ask(
            ask,
            err,
            op,
            CreateTTLRequest,
            { ...request, ttl: options.ttl! },
            Create2Response,
          )
        : await this.#ask(ask, err, op, CreateRequest, request, Create2Response);
    return answer?.path ?? '';
  }

  async delete(path: string, version = -1, err: Expected = 0): Promise<void> {
    await this.#ask(
      `delete ${path} ${version}`,
      err,
      OpCode.delete,
      DeleteRequest,
      { path, version },
      Empty,
    );
  }

  async set(
    path: string,
    data: Uint8Array | string | null,
    version = -1,
    err: Expected = 0,
  ): Promise<void> {
    const request = { path, version, data: typeof data === 'string' ? Buffer.from(data) : data };
    await this.#ask(
      `set ${path} ${version}`,
      err,
      OpCode.setData,
      SetDataRequest,
      request,
      StatResponse,
    );
  }

  async exists(path: string, watch = false, err: Expected = 0): Promise<void> {
    await this.#ask(
      `exists ${path}`,
      err,
      OpCode.exists,
      ReadRequest,
      { path, watch },
      StatResponse,
    );
  }

  async get(path: string, watch = false, err: Expected = 0): Promise<void> {
    await this.#ask(
      `get ${path}`,
      err,
      OpCode.getData,
      ReadRequest,
      { path, watch },
      GetDataResponse,
    );
  }

  async children(path: string, watch = false, err: Expected = 0): Promise<void> {
    await this.#ask(
      `ls ${path}`,
      err,
      OpCode.getChildren,
      ReadRequest,
      { path, watch },
      GetChildrenResponse,
    );
  }

  async children2(path: string, watch = false, err: Expected = 0): Promise<string[]> {
    const request = { path, watch };
    const answer = await this.#ask(
      `ls2 ${path}`,
      err,
      OpCode.getChildren2,
      ReadRequest,
      request,
      GetChildren2Response,
    );
    return [...(answer?.children ?? [])].sort();
  }

  async getAcl(path: string, err: Expected = 0): Promise<void> {
    await this.#ask(`getACL ${path}`, err, OpCode.getACL, PathRequest, { path }, GetACLResponse);
  }

  async setAcl(path: string, acl: Acl[], version = -1, err: Expected = 0): Promise<void> {
    const request = { path, acl, version };
    await this.#ask(`setACL ${path}`, err, OpCode.setACL, SetACLRequest, request, StatResponse);
  }

  async sync(path: string): Promise<void> {
    await this.#ask(`sync ${path}`, 0, OpCode.sync, PathRequest, { path }, PathResponse);
  }

  async ping(): Promise<void> {
    await this.#ask('ping', 0, OpCode.ping, Empty, undefined, Empty, Xid.ping);
  }

  async auth(credentials: string, scheme = 'digest', err: Expected = 0): Promise<void> {
    const request = { type: 0, scheme, auth: Buffer.from(credentials) };
    await this.#ask(`auth ${scheme}`, err, OpCode.auth, AuthPacket, request, Empty, Xid.auth);
  }

  async setWatches(
    relativeZxid: number,
    data: string[],
    exist: string[],
    child: string[],
  ): Promise<void> {
    const request = { relativeZxid, dataWatches: data, existWatches: exist, childWatches: child };
    await this.#ask('setWatches', 0, OpCode.setWatches, SetWatches, request, Empty, Xid.setWatches);
  }

  async close(): Promise<void> {
    await this.#ask('close', 0, OpCode.closeSession, Empty, undefined, Empty);
    await this.closed();
  }

  /** A request of any type whose body is these bytes. */
  async send(type: number, body: Uint8Array, err: Expected): Promise<void> {
    const verbatim: Codec<Uint8Array> = {
      read: () => body,
      write: (bytes, to) => {
        for (const byte of bytes) to.bool(byte !== 0);
      },
    };
    await this.#ask(`request ${type}`, err, type, verbatim, body, Empty);
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

  async #ask<Q, A>(
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
    const { stat, children, data, ...rest } = body as {
      stat?: Stat;
      children?: string[];
      data?: Buffer;
    };
    return {
      ...rest,
      ...(stat && { stat: this.recorder.stat(stat) }),
      // The real server lists in the order of a hash table: no client may rely on it.
      ...(children && { children: children.toSorted() }),
      ...(data !== undefined && { data: data && Buffer.from(data).toString('latin1') }),
    };
  }
}
