import { parentOf } from '../paths.js';
import { OpCode } from '../../protocol/index.js';
import { Group, KnownDirectories, type WireRequest } from './wire-group.js';

/** What is sent in one frame. */
export interface Frame {
  readonly sent: WireRequest | Group;
  /** The group whose changes this read must see. */
  readonly dependsOn?: Group | undefined;
}

const CHANGES = new Set<number>([
  OpCode.create,
  OpCode.createContainer,
  OpCode.createTTL,
  OpCode.delete,
  OpCode.setData,
  OpCode.setACL,
]);

/** If more requests wait, the others are not looked at in this turn. */
const MAX_SEARCHED = 1024;

/**
 * The requests of a connection that were not sent. Requests about the same node, or about a node and its child, are sent
 * in the order of the calls. Others may pass each other:
 *
 * - A create or a delete joins the group of this turn, and passes the reads and single requests before it.
 * - A change waits while a group under way concerns its node or the parent.
 * - A create or a delete waits while too many groups are under way. With those that wait it forms the next group.
 */
export class RequestQueue {
  /** Whether the server knows `multi`. */
  knowsMulti = true;
  readonly #known = new KnownDirectories();
  #waiting: WireRequest[] = [];
  /** The groups under way, by their paths. No two of them have a path in common. */
  readonly #byPath = new Map<string, Group>();
  #groups = 0;

  get isEmpty(): boolean {
    return this.#waiting.length === 0;
  }

  add(request: WireRequest): void {
    this.#waiting.push(request);
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

  takeAll(): WireRequest[] {
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
  recordCreate(type: number, path: string, code: number): void {
    this.#known.recordCreate(type, path, code);
  }

  /** Takes what may be sent with one more group. */
  #takeGroup(frames: Frame[], maxGroups: number): void {
    const waiting = this.#waiting;
    let left: WireRequest[] = [];
    /** The paths of the requests that are left. No later request about them may be sent. */
    const leftPaths = new Set<string>();
    let group = new Group();
    let groupAt = -1;
    /** The paths of the frames after the place of the group. A change of one of them may not join it. */
    const later = new Set<string>();
    /** Sends the first request of the group alone. */
    const startAgain = () => {
      group = new Group();
      groupAt = -1;
      later.clear();
    };
    /** A transaction never joins a group, because it may fail. */
    const takeTransaction = (request: WireRequest, paths: readonly string[]): boolean => {
      const concerns = (others: Pick<Set<string>, 'has'>) => paths.some((path) => others.has(path));
      if (concerns(leftPaths) || concerns(this.#byPath)) return false;
      if (concerns(group.paths)) {
        if (group.requests.length > 1) return false;
        startAgain();
      }
      frames.push({ sent: request });
      if (groupAt >= 0) for (const path of paths) later.add(path);
      return true;
    };
    const take = (request: WireRequest): boolean => {
      const { type, path } = request;
      if (request.paths) return takeTransaction(request, request.paths);
      if (path === undefined) return frames.push({ sent: request }) > 0;
      const isChange = CHANGES.has(type);
      const parent = isChange ? parentOf(path) : path;
      const concerns = (paths: Pick<Set<string>, 'has'>) => paths.has(path) || paths.has(parent);
      if (concerns(leftPaths) || (isChange && concerns(this.#byPath))) return false;
      if (!isChange) {
        const dependsOn = this.#byPath.get(path) ?? (group.paths.has(path) ? group : undefined);
        frames.push({ sent: request, dependsOn });
      } else if (this.#mayJoin(type, path)) {
        if (this.#groups >= maxGroups) return false;
        if (concerns(later)) {
          if (group.requests.length > 1) return false;
          startAgain();
        }
        if (!group.add(request, path)) return false;
        if (groupAt < 0) groupAt = frames.push({ sent: request }) - 1;
        return true;
      } else {
        if (concerns(group.paths)) {
          if (group.requests.length > 1) return false;
          startAgain();
        }
        frames.push({ sent: request });
      }
      if (groupAt >= 0) later.add(path).add(parent);
      return true;
    };
    for (const [index, request] of waiting.entries()) {
      if (take(request)) continue;
      left.push(request);
      if (left.length === MAX_SEARCHED) {
        left = left.concat(waiting.slice(index + 1));
        break;
      }
      const { path, paths = path === undefined ? [] : [path, parentOf(path)] } = request;
      for (const each of paths) leftPaths.add(each);
    }
    this.#waiting = left;
    if (group.requests.length < 2) return;
    frames[groupAt] = { sent: group };
    this.#groups++;
    for (const path of group.paths) this.#byPath.set(path, group);
  }

  /** Returns false for a create that may well fail, which would fail the whole group. */
  #mayJoin(type: number, path: string): boolean {
    if (!this.knowsMulti) return false;
    return type === OpCode.delete || (type === OpCode.create && this.#known.has(path));
  }
}

/** Whether there are at least two creates and deletes. Most queues have fewer, and no arrays are allocated for them. */
function hasTwo(waiting: readonly WireRequest[]): boolean {
  let count = 0;
  for (const { type } of waiting) {
    if ((type === OpCode.create || type === OpCode.delete) && ++count === 2) return true;
  }
  return false;
}
