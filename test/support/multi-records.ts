import {
  type Acl,
  CheckVersionRequest,
  type Codec,
  Create2Response,
  CreateFlag,
  CreateRequest,
  CreateTTLRequest,
  DeleteRequest,
  Empty,
  ERROR_RESULT,
  ErrorResponse,
  GetChildrenResponse,
  GetDataResponse,
  MultiHeader,
  OpCode,
  PathResponse,
  ReadRequest,
  SetDataRequest,
  StatResponse,
  type Writer,
} from '../../lib/protocol/index.js';
import { OPEN } from './raw-requests.js';

/** One operation of a multi, as the client sends it. */
export interface MultiStep {
  readonly type: number;
  readonly path: string;
  write(to: Writer): void;
}

interface StepOptions {
  data?: string | null;
  acl?: readonly Acl[];
  flags?: number;
  type?: number;
}

function step<Q extends { path: string }>(type: number, codec: Codec<Q>, request: Q): MultiStep {
  return { type, path: request.path, write: (to) => codec.write(request, to) };
}

/** The operations of a multi and of a multiRead, by name. */
export const steps = {
  create(path: string, options: StepOptions = {}): MultiStep {
    const { data = 'data', acl = OPEN, flags = CreateFlag.persistent } = options;
    const request = { path, data: data === null ? null : Buffer.from(data), acl, flags };
    return step(options.type ?? OpCode.create, CreateRequest, request);
  },
  createTtl(path: string, ttl: number, flags: number = CreateFlag.ttl): MultiStep {
    const request = { path, data: null, acl: OPEN, flags, ttl };
    return step(OpCode.createTTL, CreateTTLRequest, request);
  },
  delete: (path: string, version = -1) => step(OpCode.delete, DeleteRequest, { path, version }),
  set: (path: string, data: string, version = -1) =>
    step(OpCode.setData, SetDataRequest, { path, data: Buffer.from(data), version }),
  check: (path: string, version = -1) => step(OpCode.check, CheckVersionRequest, { path, version }),
  get: (path: string) => step(OpCode.getData, ReadRequest, { path, watch: true }),
  children: (path: string) => step(OpCode.getChildren, ReadRequest, { path, watch: true }),
  unknown: (type: number): MultiStep => ({ type, path: '', write: () => {} }),
};

export const MultiRequest: Codec<readonly MultiStep[]> = {
  read: () => [],
  write(all, to) {
    for (const { type, write } of all) {
      MultiHeader.write({ type, done: false, err: -1 }, to);
      write(to);
    }
    MultiHeader.write({ type: -1, done: true, err: -1 }, to);
  },
};

const RESULTS: ReadonlyMap<number, Codec<unknown>> = new Map<number, Codec<unknown>>([
  [OpCode.create, PathResponse],
  [OpCode.create2, Create2Response],
  [OpCode.delete, Empty],
  [OpCode.setData, StatResponse],
  [OpCode.check, Empty],
  [OpCode.getData, GetDataResponse],
  [OpCode.getChildren, GetChildrenResponse],
  [ERROR_RESULT, ErrorResponse],
]);

export const MultiResponse: Codec<{ results: { type: number; err: number }[] }> = {
  read(from) {
    const results = [];
    for (let header = MultiHeader.read(from); !header.done; header = MultiHeader.read(from)) {
      const { type, err } = header;
      const codec = RESULTS.get(type);
      if (!codec) throw new Error(`a result of type ${type}`);
      results.push({ type, err, ...(codec.read(from) as object | undefined) });
    }
    return { results };
  },
  write: () => {},
};
