import {
  CheckVersionRequest,
  Create2Response,
  CreateFlag,
  CreateRequest,
  CreateTTLRequest,
  DeleteRequest,
  ERROR_RESULT,
  ErrorCode,
  ErrorResponse,
  GetChildrenResponse,
  GetDataResponse,
  MultiHeader,
  OpCode,
  PathResponse,
  ProtocolError,
  type Reader,
  ReadRequest,
  SetDataRequest,
  StatResponse,
  type ValueOf,
  type Writer,
} from '../protocol/index.js';
import type { Call, Reply } from './call.js';
import { create, createContainer, createTtl, TTL_FLAGS } from './creates.js';
import type { Transaction } from './data-tree.js';
import { KeeperError } from './keeper-error.js';

/** Bytes. A request of one frame can read the same large node tens of thousands of times. */
const MAX_REPLY = 1 << 26;

/** The result of one operation: a body after a header of its type. */
interface Result {
  readonly type: number;
  readonly write: Reply;
}

type WriteStep = (call: Call, at: Transaction) => Result;
type ReadStep = (call: Call) => Result;

/** Applies all of the operations or none: if one fails, earlier ones are rolled back and later ones skipped. */
export function multi(call: Call, body: Reader, at: Transaction): Reply {
  const steps = readSteps(body, writeStep);
  const results: Result[] = [];
  try {
    call.tree.atomically(() => {
      for (const step of steps) results.push(step(call, at));
    });
  } catch (error) {
    if (!(error instanceof KeeperError)) throw error;
    const failed = results.length;
    return replyOf(
      steps.map((_, i) => {
        if (i === failed) return failure(error.code);
        return failure(i < failed ? ErrorCode.ok : ErrorCode.runtimeInconsistency);
      }),
    );
  }
  return replyOf(results);
}

/** Runs read operations; each one fails or succeeds by itself. */
export function multiRead(call: Call, body: Reader): Reply {
  return replyOf(
    readSteps(body, readStep).map((step) => {
      try {
        return step(call);
      } catch (error) {
        if (error instanceof KeeperError) return failure(error.code);
        throw error;
      }
    }),
  );
}

function readSteps<S>(body: Reader, readStep: (type: number, body: Reader) => S): S[] {
  const steps: S[] = [];
  for (let header = MultiHeader.read(body); !header.done; header = MultiHeader.read(body)) {
    steps.push(readStep(header.type, body));
  }
  return steps;
}

function writeStep(type: number, body: Reader): WriteStep {
  switch (type) {
    case OpCode.create:
    case OpCode.create2:
    case OpCode.createContainer:
      return createStep(CreateRequest.read(body));
    case OpCode.createTTL: {
      const request = CreateTTLRequest.read(body);
      if (!TTL_FLAGS.has(request.flags)) return createStep(request);
      return (call, at) => created2(createTtl(call, request, at));
    }
    case OpCode.delete: {
      const { path, version } = DeleteRequest.read(body);
      return ({ tree, caller }, at) => {
        tree.delete(path, version, caller, at);
        return { type, write: () => {} };
      };
    }
    case OpCode.setData: {
      const { path, data, version } = SetDataRequest.read(body);
      return ({ tree, caller }, at) => {
        const stat = tree.setData(path, data && Buffer.from(data), version, caller, at);
        return { type, write: (to) => StatResponse.write({ stat }, to) };
      };
    }
    case OpCode.check: {
      const { path, version } = CheckVersionRequest.read(body);
      return ({ tree, caller }) => {
        tree.check(path, version, caller);
        return { type, write: () => {} };
      };
    }
    default:
      throw new ProtocolError(`an operation of type ${type} in a multi`);
  }
}

// In a multi, only the flag determines the kind of node and the form of the answer: create2 returns no stat either.
function createStep(request: ValueOf<typeof CreateRequest>): WriteStep {
  const { flags } = request;
  if (TTL_FLAGS.has(flags)) {
    throw new ProtocolError(`a create with flag ${flags} without a TTL in a multi`);
  }
  if (flags === CreateFlag.container) {
    return (call, at) => created2(createContainer(call, request, at));
  }
  return (call, at) => {
    const { path } = create(call, request, at);
    return { type: OpCode.create, write: (to) => PathResponse.write({ path }, to) };
  };
}

function created2(answer: ValueOf<typeof Create2Response>): Result {
  return { type: OpCode.create2, write: (to) => Create2Response.write(answer, to) };
}

function readStep(type: number, body: Reader): ReadStep {
  const isKnown = type === OpCode.getData || type === OpCode.getChildren;
  if (!isKnown) throw new ProtocolError(`an operation of type ${type} in a multiRead`);
  // A multiRead sets no watches, even if the request asks for one.
  const { path } = ReadRequest.read(body);
  return ({ tree, caller }) => {
    if (type === OpCode.getData) {
      const answer = tree.getData(path, caller);
      return { type, write: (to) => GetDataResponse.write(answer, to) };
    }
    const answer = tree.getChildren(path, caller);
    return { type, write: (to) => GetChildrenResponse.write(answer, to) };
  };
}

function failure(err: number): Result & { err: number } {
  return { type: ERROR_RESULT, err, write: (to) => ErrorResponse.write({ err }, to) };
}

function replyOf(results: readonly (Result & { err?: number })[]): Reply {
  return (to: Writer) => {
    for (const { type, err = 0, write } of results) {
      MultiHeader.write({ type, done: false, err }, to);
      write(to);
      if (to.length > MAX_REPLY) throw new ProtocolError(`a reply above ${MAX_REPLY} bytes`);
    }
    MultiHeader.write({ type: -1, done: true, err: -1 }, to);
  };
}
