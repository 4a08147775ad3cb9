import { CreateFlag, ErrorCode } from '../../protocol/codes.js';
import { ShortLivedMap } from '../short-lived-map.js';
import { parentOf } from '../validation.js';
import type { MultiOperation, RequestOf } from './transport.js';
import type { Call, WireRequest } from './wire-requests.js';

/*
 * Group commit: creates and deletes that wait to be sent travel in one `multi`, which is one transaction and one
 * proposal to the quorum. A transaction that only deletes counts as a delete.
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
const MAX_OPERATIONS = 128;
const MAX_BYTES = 32 * 1024;
/** A generous bound of the bytes of a request in addition to its path and data. */
const OVERHEAD = 128;
const MAX_DIRECTORIES = 10_000;
/** Characters. The creates below a longer path travel alone. */
const MAX_DIRECTORY = 1024;
/** If more requests wait, the others are not looked at in this turn. */
const MAX_SEARCHED = 1024;

const CHANGES: ReadonlySet<string> = new Set(['create', 'delete', 'set', 'setAcl', 'multi']);

type Groupable = RequestOf<'create' | 'delete' | 'multi'>;

/** Creates and deletes that travel in one `multi`. */
export class Group {
  readonly calls: Call[] = [];
  /** Those of all calls. */
  readonly operations: MultiOperation[] = [];
  /** The nodes that it creates or deletes, and their parents. */
  readonly paths = new Set<string>();
  #bytes = 0;

  /** Returns false if the request would exceed the limits of a group. The first request never does. */
  add(call: Call): boolean {
    const request = call.request as Groupable;
    const added = request.kind === 'multi' ? request.operations : [request];
    const bytes = added.reduce((sum, each) => sum + bytesOf(each), 0);
    const count = this.operations.length + added.length;
    const exceeds = count > MAX_OPERATIONS || this.#bytes + bytes > MAX_BYTES;
    if (exceeds && this.calls.length > 0) return false;
    this.#bytes += bytes;
    this.calls.push(call);
    this.operations.push(...added);
    for (const path of pathsOf(request)) this.paths.add(path);
    return true;
  }

  /** Gives each call the results of its operations. */
  reply(results: readonly unknown[]): void {
    let next = 0;
    for (const { request, reply } of this.calls) {
      if (request.kind !== 'multi') {
        reply(ErrorCode.ok, results[next++]);
        continue;
      }
      const own = results.slice(next, (next += request.operations.length));
      reply(ErrorCode.ok, { results: own });
    }
  }
}

/** What is sent in one frame. */
export interface Frame {
  readonly sent: Call | Group;
  /** The group whose changes this read must see. */
  readonly dependsOn?: Group | undefined;
}

/**
 * The requests of a connection that were not sent. Requests about the same node, or about a node and its child, are sent
 * in the order of the calls. Others may pass each other:
 *
 * - A create or a delete joins the group of this turn, and passes the reads and single requests before it.
 * - A change waits while a group under way concerns its node or the parent.
 * - A create or a delete waits while too many groups are under way. With those that wait it forms the next group.
 * - A read waits while it depends on two groups under way, of its own node and of the create that it follows.
 */
export class RequestQueue {
  /** Whether the server knows `multi`. */
  knowsMulti = true;
  /**
   * The directories that exist, as far as this connection knows. A create in another directory travels alone: the directory
   * may be missing, which would fail the whole group. So does the create of a container, which often exists already.
   */
  readonly #directories = new Set<string>();
  #waiting: Call[] = [];
  /** The groups under way, by their paths. No two of them have a path in common. */
  readonly #byPath = new ShortLivedMap<string, Group>();
  #groups = 0;

  add(call: Call): void {
    this.#waiting.push(call);
  }

  /** Takes what may be sent now, in this order. */
  take(maxGroups: number): Frame[] {
    const frames: Frame[] = [];
    if (this.#groups === 0 && !(this.knowsMulti && hasTwo(this.#waiting))) {
      for (const sent of this.#waiting) frames.push({ sent });
      this.#waiting = [];
      return frames;
    }
    for (let before; this.#waiting.length > 0 && this.#waiting.length !== before;) {
      before = this.#waiting.length;
      this.#takeGroup(frames, maxGroups);
    }
    return frames;
  }

  takeAll(): Call[] {
    const all = this.#waiting;
    this.#waiting = [];
    return all;
  }

  /** Called when the reply to a group has arrived. */
  ended(group: Group): void {
    this.#groups--;
    for (const path of group.paths) this.#byPath.delete(path);
  }

  /** Called when the reply to a create has arrived that was not in a group. */
  recordCreate({ path, flags, ttl }: RequestOf<'create'>, code: number): void {
    if (ttl !== undefined) return;
    const isContainer = flags === CreateFlag.container;
    const directory = parentOf(path);
    const isKnown = code === ErrorCode.ok || (code === ErrorCode.nodeExists && isContainer);
    const known = isContainer ? path : directory;
    if (isKnown && known.length <= MAX_DIRECTORY) this.#directories.add(known);
    else if (code === ErrorCode.noNode) this.#directories.delete(directory);
    if (this.#directories.size > MAX_DIRECTORIES) {
      const [oldest] = this.#directories;
      this.#directories.delete(oldest!);
    }
  }

  /** Takes what may be sent with one more group. */
  #takeGroup(frames: Frame[], maxGroups: number): void {
    const waiting = this.takeAll();
    const selection = new Selection(frames, this.#byPath);
    let next = 0;
    while (next < waiting.length && this.#waiting.length < MAX_SEARCHED) {
      const call = waiting[next++]!;
      const joins = this.#mayJoin(call.request);
      if (!(joins && this.#groups >= maxGroups) && selection.take(call, joins)) continue;
      this.#waiting.push(call);
      selection.block(call.request);
    }
    this.#waiting = this.#waiting.concat(waiting.slice(next));
    const group = selection.end();
    if (!group) return;
    this.#groups++;
    for (const path of group.paths) this.#byPath.set(path, group);
  }

  /** Returns false for a create that may well fail, which would fail the whole group. */
  #mayJoin(request: WireRequest): boolean {
    if (!this.knowsMulti || !isGroupable(request)) return false;
    return request.kind !== 'create' || this.#directories.has(parentOf(request.path));
  }
}

/** One search of the waiting requests for those that may be sent, with at most one new group. */
class Selection {
  #group = new Group();
  /** The index of the group's frame, which is that of its first request. */
  #groupAt = -1;
  /** The paths of the frames behind that of the group. A request that joins the group passes these frames. */
  readonly #behind = new Set<string>();
  /** The paths of the requests that still wait. No later request about them may be sent. */
  readonly #blocked = new Set<string>();

  constructor(
    private readonly frames: Frame[],
    private readonly underWay: Pick<ShortLivedMap<string, Group>, 'get' | 'has'>,
  ) {}

  /**
   * Returns whether the request is sent now.
   *
   * @param joins whether it may travel in a group
   */
  take(call: Call, joins: boolean): boolean {
    const paths = pathsOf(call.request);
    if (concerns(paths, this.#blocked)) return false;
    let dependsOn: Group | undefined;
    if (CHANGES.has(call.request.kind)) {
      if (concerns(paths, this.underWay)) return false;
      if (joins) return this.#join(call, paths);
      if (concerns(paths, this.#group.paths) && !this.#dissolveGroup()) return false;
    } else {
      const groups = paths.flatMap((path) => this.#groupOf(path) ?? []);
      // Repeated with one of two groups, the read might pass the other one.
      if (groups.some((group) => group !== groups[0])) return false;
      [dependsOn] = groups;
    }
    this.frames.push({ sent: call, dependsOn });
    if (this.#groupAt >= 0) for (const path of paths) this.#behind.add(path);
    return true;
  }

  #groupOf(path: string): Group | undefined {
    return this.underWay.get(path) ?? (this.#group.paths.has(path) ? this.#group : undefined);
  }

  block(request: WireRequest): void {
    for (const path of pathsOf(request, true)) this.#blocked.add(path);
  }

  /** Returns the new group, unless fewer than two requests have joined it. */
  end(): Group | undefined {
    if (this.#group.calls.length < 2) return undefined;
    this.frames[this.#groupAt] = { sent: this.#group };
    return this.#group;
  }

  #join(call: Call, paths: readonly string[]): boolean {
    if (concerns(paths, this.#behind) && !this.#dissolveGroup()) return false;
    if (!this.#group.add(call)) return false;
    if (this.#groupAt < 0) this.#groupAt = this.frames.push({ sent: call }) - 1;
    return true;
  }

  /** Begins another group, if this one has a single request: its frame sends that request alone. */
  #dissolveGroup(): boolean {
    if (this.#group.calls.length > 1) return false;
    this.#group = new Group();
    this.#groupAt = -1;
    this.#behind.clear();
    return true;
  }
}

/** Returns the nodes that a request concerns. A change also concerns the parent, a read the create that it follows. */
function pathsOf(request: WireRequest, withParent = CHANGES.has(request.kind)): string[] {
  if (request.kind === 'multi') return request.operations.flatMap((each) => pathsOf(each, true));
  const { path } = request;
  if (path === undefined) return [];
  const paths = withParent ? [path, parentOf(path)] : [path];
  if ('after' in request) paths.push(request.after!);
  return paths;
}

function concerns(paths: readonly string[], others: Pick<ReadonlySet<string>, 'has'>): boolean {
  return paths.some((path) => others.has(path));
}

/**
 * The create of a container often fails, and so may a transaction, unless it only deletes. An old server does not know a create
 * with a TTL.
 */
function isGroupable(request: WireRequest): request is Groupable {
  if (request.kind === 'multi') return request.operations.every(({ kind }) => kind === 'delete');
  if (request.kind !== 'create') return request.kind === 'delete';
  return request.ttl === undefined && request.flags !== CreateFlag.container;
}

function bytesOf(operation: MultiOperation): number {
  const data = 'data' in operation ? operation.data.length : 0;
  return OVERHEAD + 3 * operation.path.length + data;
}

/** Whether there are at least two creates and deletes. Most queues have fewer, and no arrays are allocated for them. */
function hasTwo(waiting: readonly Call[]): boolean {
  let count = 0;
  for (const { request } of waiting) if (isGroupable(request) && ++count === 2) return true;
  return false;
}
