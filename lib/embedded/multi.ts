import {
  Create2Response,
  CreateFlag,
  CreateRequest,
  CreateTTLRequest,
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
  type Writer,
} from '../protocol/index.js';
import type { Transaction } from './data-tree.js';
import type { ServerProfile } from './profiles.js';
import {
  type Call,
  create,
  createNode,
  type Operation,
  operations,
  type Reply,
  TTL_FLAGS,
} from './operations.js';
import { KeeperError } from './znode.js';

/** Bytes. A request of one frame can read the same large node tens of thousands of times. */
const MAX_REPLY = 1 << 26;

/** The result of one operation: a body after a header of its type. */
interface Result {
  readonly type: number;
  readonly write: Reply;
  readonly err?: number;
}

type WriteStep = (call: Call, at: Transaction) => Result;
type ReadStep = (call: Call) => Result;

/** Applies all of the operations or none: if one fails, earlier ones are rolled back and later ones skipped. */
export const multi: Operation = {
  kind: 'write',
  parse(body) {
    const steps = readSteps(body, writeStep);
    return (call, at) => {
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
    };
  },
};

/** Runs read operations; each one fails or succeeds by itself. */
const multiRead: Operation = {
  kind: 'read',
  parse(body) {
    const steps = readSteps(body, readStep);
    return (call) => {
      const results: Result[] = [];
      for (const step of steps) {
        try {
          results.push(step(call));
        } catch (error) {
          // A null path ends the request. Its reply has the results so far all the same.
          if (error instanceof ProtocolError)
            throw new KeeperError(ErrorCode.marshallingError, replyOf(results));
          if (!(error instanceof KeeperError)) throw error;
          results.push(failure(error.code));
        }
      }
      return replyOf(results);
    };
  },
};

/**
 * Refuses a multi with a null path, as the real server does: without a zxid, and with the body of an empty multi.
 * Leaves other violations of the protocol to `multi`.
 *
 * @throws KeeperError
 */
export function refuseNullPaths(body: Reader): void {
  let isNull = false;
  try {
    readSteps(body.fork(''), (type, step) => {
      isNull ||= step.fork().textOrNull() === null;
      writeStep(type, step);
    });
  } catch (error) {
    if (error instanceof ProtocolError) return;
    throw error;
  }
  if (isNull) throw new KeeperError(ErrorCode.marshallingError, replyOf([]));
}

/** Returns whether a server lacks the operation of a request, or one of the operations of a multi. */
export function lacks({ missingOperations }: ServerProfile, type: number, body: Reader): boolean {
  if (missingOperations.has(type)) return true;
  if (missingOperations.size === 0 || type !== OpCode.multi) return false;
  let found = false;
  readSteps(body.fork(''), (step, operation) => {
    found ||= missingOperations.has(step);
    writeStep(step, operation);
  });
  return found;
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
    case OpCode.createTTL:
      return createStep(type, body);
    case OpCode.delete:
    case OpCode.setData:
    case OpCode.check: {
      const apply = operations[type]!.parse(body);
      return (call, at) => ({ type, write: apply(call, at) });
    }
    default:
      throw new ProtocolError(`an operation of type ${type} in a multi`);
  }
}

/** The requests that are answered from the tree. The connection handles the others. */
export const requests: typeof operations = {
  ...operations,
  [OpCode.multi]: multi,
  [OpCode.multiRead]: multiRead,
};

/** Returns whether a server of an ensemble needs the leader for a request of this type, if its type has arrived. */
export function isAnsweredByLeader({ emptyTransactions }: ServerProfile, type = 0): boolean {
  if (emptyTransactions.has(type)) return true;
  const isSync = type === OpCode.sync || type === OpCode.closeSession;
  return isSync || requests[type]?.kind === 'write';
}

// In a multi, only the flag determines the kind of node and the form of the answer: create2 returns no stat either.
function createStep(type: number, body: Reader): WriteStep {
  const hasTtl = type === OpCode.createTTL;
  const request = hasTtl ? CreateTTLRequest.read(body) : CreateRequest.read(body);
  const isTtl = TTL_FLAGS.has(request.flags);
  if (isTtl && !hasTtl) {
    throw new ProtocolError(`a create with flag ${request.flags} without a TTL in a multi`);
  }
  if (isTtl || request.flags === CreateFlag.container) {
    return (call, at) => {
      const answer = createNode(call, request, isTtl ? 'ttl' : 'container', at);
      return { type: OpCode.create2, write: (to) => Create2Response.write(answer, to) };
    };
  }
  return (call, at) => {
    const answer = create(call, request, at);
    return { type: OpCode.create, write: (to) => PathResponse.write(answer, to) };
  };
}

function readStep(type: number, body: Reader): ReadStep {
  const isKnown = type === OpCode.getData || type === OpCode.getChildren;
  if (!isKnown) throw new ProtocolError(`an operation of type ${type} in a multiRead`);
  // A multiRead sets no watches, even if the request asks for one.
  const path = body.textOrNull();
  body.bool();
  return ({ tree, caller }) => {
    if (path === null) throw new ProtocolError('a null path');
    if (type === OpCode.getData) {
      const answer = tree.getData(path, caller);
      return { type, write: (to) => GetDataResponse.write(answer, to) };
    }
    const answer = tree.getChildren(path, caller);
    return { type, write: (to) => GetChildrenResponse.write(answer, to) };
  };
}

function failure(err: number): Result {
  return { type: ERROR_RESULT, err, write: (to) => ErrorResponse.write({ err }, to) };
}

function replyOf(results: readonly Result[]): Reply {
  return (to: Writer) => {
    for (const { type, err = 0, write } of results) {
      MultiHeader.write({ type, done: false, err }, to);
      write(to);
      if (to.length > MAX_REPLY) throw new ProtocolError(`a reply above ${MAX_REPLY} bytes`);
    }
    MultiHeader.write({ type: -1, done: true, err: -1 }, to);
  };
}
