import {
  ERROR_RESULT,
  ErrorCode,
  MultiHeader,
  OpCode,
  ProtocolError,
  type Reader,
  type Writer,
} from '../../protocol/index.js';
import type { Reply } from './transport.js';

/*
 * Group commit: creates and deletes that wait to be sent travel in one `multi`, which is one transaction and one
 * proposal to the quorum.
 *
 *           two or more creates and deletes wait              it succeeded
 *     idle ───────────────────────────────────▶ under way ──────────────────▶ idle
 *                                                   │ it failed                ▲
 *                                                   ▼                          │
 *                                                repeating ────────────────────┘
 *                                      the replies to the reads behind it have arrived
 *
 * Behind the group, in the same turn, follow reads, and creates that may well fail. All other requests
 * wait while a group is under way, so that the order of a session's requests does not depend on whether a group fails.
 * A group that failed changed nothing: its requests, and then the reads behind it, are sent again one by one. A read
 * behind a create must see it.
 */

/** The limits of one group. The server refuses a request above `jute.maxbuffer`, by default one mebibyte. */
const MAX_REQUESTS = 128;
const MAX_BYTES = 256 * 1024;
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
  /** The path of a create or a delete; absent for other requests. */
  readonly path?: string | undefined;
  /** The bytes of data of a create. */
  readonly bytes?: number;
}

/** Requests that may be sent behind a group that contains later creates and deletes. */
const MAY_FOLLOW = new Set<number>([
  OpCode.getData,
  OpCode.exists,
  OpCode.getChildren2,
  OpCode.sync,
  OpCode.removeWatches,
]);

/**
 * The directories that exist, as far as this connection knows. A create in another directory travels alone: the directory
 * may be missing, which would fail the whole group. So does the create of a container, which often exists already.
 */
export class KnownDirectories {
  readonly #directories = new Set<string>();

  has(path: string): boolean {
    return this.#directories.has(parentOf(path));
  }

  /** Takes note of the outcome of a create. */
  created(type: number, path: string, code: number): void {
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

/** Takes the requests of the next group from the queue, with those that follow it; undefined if there is no group. */
export function takeGroup(
  queue: WireRequest[],
  known: KnownDirectories,
): { group: WireRequest[]; behind: WireRequest[] } | undefined {
  if (!hasTwo(queue)) return undefined;
  const group: WireRequest[] = [];
  const behind: WireRequest[] = [];
  let bytes = 0;
  let taken = 0;
  for (const request of queue) {
    const { type, path } = request;
    if (path === undefined ? !MAY_FOLLOW.has(type) : group.length === MAX_REQUESTS) break;
    const mayFail =
      type === OpCode.createContainer || (type === OpCode.create && !known.has(path!));
    if (path === undefined || mayFail) behind.push(request);
    else {
      bytes += OVERHEAD + 3 * path.length + (request.bytes ?? 0);
      if (bytes > MAX_BYTES) break;
      group.push(request);
    }
    taken++;
  }
  if (group.length < 2) return undefined;
  queue.splice(0, taken);
  return { group, behind };
}

/** Whether a queue has at least two creates and deletes. Most have not, and need no lists. */
function hasTwo(queue: readonly WireRequest[]): boolean {
  let count = 0;
  for (const { path } of queue) if (path !== undefined && ++count === 2) return true;
  return false;
}

export function writeGroup(group: readonly WireRequest[], to: Writer): void {
  for (const { type, write } of group) {
    MultiHeader.write({ type, done: false, err: -1 }, to);
    write(to);
  }
  MultiHeader.write({ type: -1, done: true, err: -1 }, to);
}

/** Returns the results of the requests; undefined if the group failed. */
export function readGroup(group: readonly WireRequest[], from: Reader): unknown[] | undefined {
  const results: unknown[] = [];
  for (const { type, read } of group) {
    const header = MultiHeader.read(from);
    if (header.type === ERROR_RESULT) return undefined;
    if (header.type !== type) throw new ProtocolError(`a result of type ${header.type} in a multi`);
    results.push(read?.(from));
  }
  return results;
}

const parentOf = (path: string) => path.slice(0, path.lastIndexOf('/'));
