import { parentOf } from '../paths.js';
import {
  ERROR_RESULT,
  ErrorCode,
  MultiHeader,
  OpCode,
  ProtocolError,
  type Reader,
  type Writer,
} from '../../protocol/index.js';
import type { MultiOutcome, Reply } from './transport.js';
import { readStat } from './wire-replies.js';

/*
 * Group commit: creates and deletes that wait to be sent travel in one `multi`, which is one transaction and one
 * proposal to the quorum. request-queue.ts decides which of them travel together.
 *
 *           two or more creates and deletes wait              it succeeded
 *     idle ───────────────────────────────────▶ under way ──────────────────▶ idle
 *                                                   │                          ▲
 *                                                   │ it failed                │
 *                                                   └──────────────────────────┘
 *                                                     its requests, and the reads that depend on it,
 *                                                     are sent again one by one
 *
 * A failed `multi` changes nothing. The reads that follow a group are sent with it. If it fails, the client ignores their
 * replies and sends them again after the requests of the group: a read must see every create requested before it.
 */

/** The limits of one group. The server refuses a request above `jute.maxbuffer`, by default one mebibyte. */
const MAX_REQUESTS = 128;
const MAX_BYTES = 32 * 1024;
/** A generous bound of the bytes of a request in addition to its path and data. */
const OVERHEAD = 128;
const MAX_DIRECTORIES = 10_000;

/** A request without a reply. */
export interface WireRequest {
  readonly type: number;
  readonly reply: Reply<unknown>;
  /** Writes the body. */
  readonly write: (to: Writer) => void;
  /** Reads the body of a reply without an error; absent if its content is not needed. */
  readonly read: ((from: Reader) => unknown) | undefined;
  /** The node that it reads, creates, changes or deletes; absent if it concerns none, or several. */
  readonly path?: string | undefined;
  /** The nodes of the operations of a transaction, and their parents. */
  readonly paths?: readonly string[] | undefined;
  /** The bytes of data of a create. */
  readonly bytes?: number | undefined;
}

/** Creates and deletes that travel in one `multi`. */
export class Group {
  readonly requests: WireRequest[] = [];
  /** The nodes that it creates or deletes, and their parents. */
  readonly paths = new Set<string>();
  #bytes = 0;

  /** Returns false if the request would exceed the limits of a group. The first request never does. */
  add(request: WireRequest, path: string): boolean {
    const bytes = OVERHEAD + 3 * path.length + (request.bytes ?? 0);
    const { length } = this.requests;
    if (length > 0 && (length === MAX_REQUESTS || this.#bytes + bytes > MAX_BYTES)) return false;
    this.#bytes += bytes;
    this.requests.push(request);
    this.paths.add(path).add(parentOf(path));
    return true;
  }
}

/**
 * The directories that exist, as far as this connection knows. A create in another directory travels alone: the directory
 * may be missing, which would fail the whole group. So does the create of a container, which often exists already.
 */
export class KnownDirectories {
  readonly #directories = new Set<string>();

  has(path: string): boolean {
    return this.#directories.has(parentOf(path));
  }

  /** Records the result code of a create. */
  recordCreate(type: number, path: string, code: number): void {
    const directory = parentOf(path);
    const isContainer = type === OpCode.createContainer;
    if (code === ErrorCode.noNode) this.#directories.delete(directory);
    else if (code === ErrorCode.ok) this.#add(isContainer ? path : directory);
    else if (code === ErrorCode.nodeExists && isContainer) this.#add(path);
  }

  #add(directory: string): void {
    if (this.#directories.has(directory)) return;
    this.#directories.add(directory);
    if (this.#directories.size <= MAX_DIRECTORIES) return;
    const [oldest] = this.#directories;
    this.#directories.delete(oldest!);
  }
}

type Operation = Pick<WireRequest, 'type' | 'write' | 'read'>;

/** Writes the body of a `multi`. */
export function writeMulti(operations: readonly Operation[], to: Writer): void {
  for (const { type, write } of operations) {
    MultiHeader.write({ type, done: false, err: -1 }, to);
    write(to);
  }
  MultiHeader.write({ type: -1, done: true, err: -1 }, to);
}

/** Reads the reply to a `multi`. */
export function readMulti(operations: readonly Operation[], from: Reader): MultiOutcome {
  const results: unknown[] = [];
  for (const [index, { type, read }] of operations.entries()) {
    const header = MultiHeader.read(from);
    if (header.type === ERROR_RESULT) {
      // The operations before the one that failed have the code 0: they were undone.
      if (header.err !== ErrorCode.ok) return { failed: index, code: header.err };
      from.int();
      continue;
    }
    if (header.type !== type && header.type !== OpCode.create2) {
      throw new ProtocolError(`a result of type ${header.type} in a multi`);
    }
    results.push(read?.(from));
    // The reply to the create of a container or of a znode with a TTL has a stat, but only in a multi.
    if (header.type === OpCode.create2) readStat(from);
  }
  return { results };
}
