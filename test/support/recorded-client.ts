import {
  type Acl,
  AddWatchRequest,
  AuthPacket,
  CheckVersionRequest,
  CheckWatchesRequest,
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
  StatResponse,
  type ValueOf,
  WhoAmIResponse,
  Xid,
} from '../../lib/protocol/index.js';
import { MultiRequest, MultiResponse, type MultiStep } from './multi-records.js';
import { OPEN } from './raw-requests.js';
import { type Expected, RecordedConnection } from './recorded-connection.js';

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
    const request = { path, data: typeof data === 'string' ? Buffer.from(data) : data, acl, flags };
    const ask = `create ${op} ${flags} ${path}`;
    if (op === OpCode.create) {
      return (await this.ask(ask, err, op, CreateRequest, request, PathResponse))?.path ?? '';
    }
    const answer =
      op === OpCode.createTTL
        ? await this.ask(
            ask,
            err,
            op,
            CreateTTLRequest,
            { ...request, ttl: options.ttl! },
            Create2Response,
          )
        : await this.ask(ask, err, op, CreateRequest, request, Create2Response);
    return answer?.path ?? '';
  }

  async delete(path: string, version = -1, err: Expected = 0): Promise<void> {
    await this.ask(
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
    await this.ask(
      `set ${path} ${version}`,
      err,
      OpCode.setData,
      SetDataRequest,
      request,
      StatResponse,
    );
  }

  async exists(path: string, watch = false, err: Expected = 0): Promise<void> {
    await this.ask(
      `exists ${path}`,
      err,
      OpCode.exists,
      ReadRequest,
      { path, watch },
      StatResponse,
    );
  }

  async get(path: string, watch = false, err: Expected = 0): Promise<void> {
    await this.ask(
      `get ${path}`,
      err,
      OpCode.getData,
      ReadRequest,
      { path, watch },
      GetDataResponse,
    );
  }

  async children(path: string, watch = false, err: Expected = 0): Promise<void> {
    await this.ask(
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
    const answer = await this.ask(
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
    await this.ask(`getACL ${path}`, err, OpCode.getACL, PathRequest, { path }, GetACLResponse);
  }

  async setAcl(path: string, acl: Acl[], version = -1, err: Expected = 0): Promise<void> {
    const request = { path, acl, version };
    await this.ask(`setACL ${path}`, err, OpCode.setACL, SetACLRequest, request, StatResponse);
  }

  async sync(path: string): Promise<void> {
    await this.ask(`sync ${path}`, 0, OpCode.sync, PathRequest, { path }, PathResponse);
  }

  async ping(): Promise<void> {
    await this.ask('ping', 0, OpCode.ping, Empty, undefined, Empty, Xid.ping);
  }

  async auth(credentials: string, scheme = 'digest', err: Expected = 0): Promise<void> {
    const request = { type: 0, scheme, auth: Buffer.from(credentials) };
    await this.ask(`auth ${scheme}`, err, OpCode.auth, AuthPacket, request, Empty, Xid.auth);
  }

  async setWatches(
    relativeZxid: number,
    data: string[],
    exist: string[],
    child: string[],
  ): Promise<void> {
    const request = { relativeZxid, dataWatches: data, existWatches: exist, childWatches: child };
    await this.ask('setWatches', 0, OpCode.setWatches, SetWatches, request, Empty, Xid.setWatches);
  }

  async close(): Promise<void> {
    await this.ask('close', 0, OpCode.closeSession, Empty, undefined, Empty);
    await this.closed();
  }
  async addWatch(path: string, mode: number, err: Expected = 0): Promise<void> {
    const request = { path, mode };
    await this.ask(
      `addWatch ${path} ${mode}`,
      err,
      OpCode.addWatch,
      AddWatchRequest,
      request,
      ErrorResponse,
    );
  }

  async checkWatches(path: string, type: number, err: Expected = 0): Promise<void> {
    const request = { path, type };
    await this.ask(
      `checkWatches ${path} ${type}`,
      err,
      OpCode.checkWatches,
      CheckWatchesRequest,
      request,
      Empty,
    );
  }

  async removeWatches(path: string, type: number, err: Expected = 0): Promise<void> {
    const request = { path, type };
    await this.ask(
      `removeWatches ${path} ${type}`,
      err,
      OpCode.removeWatches,
      RemoveWatchesRequest,
      request,
      Empty,
    );
  }

  async setWatches2(request: ValueOf<typeof SetWatches2>): Promise<void> {
    await this.ask(
      'setWatches2',
      0,
      OpCode.setWatches2,
      SetWatches2,
      request,
      Empty,
      Xid.setWatches,
    );
  }

  async ephemerals(prefix: string): Promise<void> {
    const { getEphemerals: op } = OpCode;
    const request = { path: prefix };
    await this.ask(`getEphemerals ${prefix}`, 0, op, PathRequest, request, GetEphemeralsResponse);
  }

  async countBelow(path: string, err: Expected = 0): Promise<void> {
    await this.ask(
      `getAllChildrenNumber ${path}`,
      err,
      OpCode.getAllChildrenNumber,
      PathRequest,
      { path },
      GetAllChildrenNumberResponse,
    );
  }

  async whoAmI(): Promise<void> {
    await this.ask('whoAmI', 0, OpCode.whoAmI, Empty, undefined, WhoAmIResponse);
  }

  async check(path: string, version: number, err: Expected): Promise<void> {
    const request = { path, version };
    await this.ask(`check ${path}`, err, OpCode.check, CheckVersionRequest, request, Empty);
  }

  /** Returns the error codes of the results. */
  async multi(steps: readonly MultiStep[], err: Expected = 0, op: number = OpCode.multi) {
    const asked = `multi ${steps.map(({ type, path }) => `${type} ${path}`).join(', ')}`;
    const answer = await this.ask(asked, err, op, MultiRequest, steps, MultiResponse);
    return answer?.results.map((result) => result.err);
  }
}
