import {
  abortable,
  checkBelowRoot,
  checkOptions,
  FUNCTION,
  ifExists,
  isCode,
  Listeners,
  NotAuthorizedError,
  type Rules,
  type Session,
  sleep,
  uncheckedRules,
  type Watch,
  whenSettled,
  type ZkClient,
} from '../../client/index.js';
import {
  BackgroundRecipe,
  CLOSE_TIMEOUT,
  ErrorReporter,
  RETRY_REFUSED_AFTER,
  retryRead,
} from '../../kernel/index.js';
import { copyData } from './internals/nodes.js';
import { readEach } from './internals/read-each.js';
import { checkMemberId, MemberNode, uniqueMemberId } from './member-node.js';

/*
 * Group membership (Curator's GroupMember): each member has an ephemeral znode `<path>/<id>` with its data, and watches
 * the children of the path and the data of each of them. kazoo's Party uses the same znodes, with a random name that
 * contains `__party__` for each member and its identifier as the data.
 */

/**
 * The options of a {@link GroupMember}.
 *
 * @publicApi
 */
export interface GroupMemberOptions {
  /**
   * The name of this member: a part of a path, unique in the group, at most 255 bytes. Default: the host name, the process
   * id and a random number.
   */
  id?: string | undefined;
  /** The data of this member for the other members, such as its address. Default: empty. */
  data?: string | Uint8Array | undefined;
  /**
   * Called when joining fails, and when another member cannot be read. The member retries joining every second. Default: a
   * process warning.
   */
  onError?: ((error: Error) => void) | undefined;
}

const RULES: Rules<GroupMemberOptions> = { ...uncheckedRules('id', 'data'), onError: FUNCTION };

/** The znode of a member as it was read last. */
interface KnownMember {
  readonly data: Buffer;
  /** Undefined if this process may not read the znode. */
  readonly watch: Watch | undefined;
  /** Whether the znode must be read again. */
  outdated: boolean;
}

/**
 * A member of a group of processes, with data. It shares the path with Curator's `GroupMember`, and knows the members that
 * are alive. It joins again after its session has ended. A process that crashes is a member until its session expires.
 *
 * `close()` leaves the group. It resolves when the znode is deleted, or the deletion is left to the background: without a
 * connection, or after 2 seconds without a reply. If the deletion fails, `onError` gets the error, and the znode is deleted
 * with its session.
 *
 * @publicApi
 */
export class GroupMember extends BackgroundRecipe {
  /** The name of this member. */
  readonly id: string;
  private readonly node: MemberNode;
  private readonly changes = new Listeners<ReadonlyMap<string, Buffer>>();
  private readonly known = new Map<string, KnownMember>();
  private view: ReadonlyMap<string, Buffer> = new Map();
  private data: Buffer;
  private joinedNow = false;
  /** The data in the znode of this member, if it is known. */
  private written: Buffer | undefined;
  /** Ends the wait for the next change. */
  private wake: (() => void) | undefined;

  /**
   * @param path the parent of the znodes of the members
   * @throws BadOptionError
   */
  constructor(client: ZkClient, path: string, options: GroupMemberOptions = {}) {
    checkBelowRoot(path);
    const { id = uniqueMemberId(), data = '', onError } = checkOptions(options, RULES);
    super(client, path, new ErrorReporter(onError));
    this.id = checkMemberId(id);
    this.data = copyData(`${path}/${this.id}`, data);
    this.node = new MemberNode(client, `${path}/${this.id}`, this.reporter);
  }

  /** Whether this member has its znode in the current session. */
  get joined(): boolean {
    return this.joinedNow;
  }

  /**
   * The members that are alive, by their ids, with their data. The map is the last one that was read: without a connection it
   * may be out of date. It is empty before the first read. The data of a member is empty if this process may not read its znode:
   * `onError` gets that error once, and the znode is read again every 30 seconds. Curator's getCurrentMembers.
   */
  get members(): ReadonlyMap<string, Buffer> {
    return this.view;
  }

  /**
   * Replaces the data of this member. It is written in the background, also after a loss of the connection. Curator's
   * setThisData.
   *
   * @throws BadOptionError if it is no string or Uint8Array, or too long; IllegalStateError after the close
   */
  setData(data: string | Uint8Array): void {
    const copy = copyData(this.node.path, data);
    if (this.state === 'closed') throw this.illegal('was closed');
    this.data = copy;
    this.wake?.();
  }

  /**
   * Adds a listener. It is called with the members whenever they or their data have changed. Returns a function that
   * removes it.
   */
  onChange(listener: (members: ReadonlyMap<string, Buffer>) => void): () => void {
    return this.changes.add(listener);
  }

  /** Returns details for a health check, without a request: this member, whether it has joined, and the ids of all members. */
  health(): { id: string; joined: boolean; members: string[] } {
    return { id: this.id, joined: this.joined, members: [...this.view.keys()] };
  }

  protected get label(): string {
    return `the member ${this.id} of ${this.path}`;
  }

  protected end(): Promise<void> {
    const left = this.loop.close(this.illegal('was closed')).then(() => this.leave());
    return sleep(CLOSE_TIMEOUT, { until: whenSettled(left), ref: true });
  }

  protected override async leave(): Promise<void> {
    this.stopListening();
    this.joinedNow = false;
    for (const name of this.known.keys()) this.forget(name);
    await this.node.delete();
  }

  protected onSessionLost(): void {
    this.joinedNow = false;
  }

  protected async participate(session: Session, signal: AbortSignal): Promise<never> {
    await this.join(session, signal);
    for (;;) {
      const list = () => session.children(this.path, { watch: true });
      const { children, watch } = await retryRead(this.client, session, list, signal);
      try {
        if (children.includes(this.id)) await this.follow(session, children, watch, signal);
        else await this.join(session, signal);
      } finally {
        watch.remove();
      }
    }
  }

  private async join(session: Session, signal: AbortSignal): Promise<void> {
    this.joinedNow = false;
    const { data } = this;
    const created = await this.node.create(session, data, signal);
    this.written = created ? data : undefined;
    this.joinedNow = true;
  }

  /** Reads the members that are new or have changed. Resolves when there may be another change. */
  private async follow(
    session: Session,
    children: readonly string[],
    { fired }: Watch,
    signal: AbortSignal,
  ): Promise<void> {
    // From here on, each change ends the wait below.
    const next = new Promise<void>((resolve) => (this.wake = resolve));
    if (this.written !== this.data) await this.write(session, signal);
    const present = new Set(children);
    for (const name of this.known.keys()) if (!present.has(name)) this.forget(name);
    const unread = children.filter((name) => this.known.get(name)?.outdated ?? true);
    await readEach(unread, (name) => this.read(session, name, signal));
    this.reporter.reset();
    this.publish();
    await abortable(Promise.race([fired, next]), signal);
  }

  private publish(): void {
    const known = [...this.known].sort(([a], [b]) => (a < b ? -1 : 1));
    const view = new Map(known.map(([name, { data }]) => [name, data]));
    const isSame =
      view.size === this.view.size &&
      known.every(([name, { data }]) => this.view.get(name)?.equals(data));
    if (isSame) return;
    this.view = view;
    this.changes.emit(view);
  }

  private async write(session: Session, signal: AbortSignal): Promise<void> {
    const { data } = this;
    const set = () => session.set(this.node.path, data);
    // Repeating it writes the same data again. Without the znode, the watch of the listing has fired.
    if (await ifExists(retryRead(this.client, session, set, signal))) this.written = data;
  }

  private async read(session: Session, name: string, signal: AbortSignal): Promise<void> {
    const get = () => session.get(`${this.path}/${name}`, { watch: true });
    try {
      const { data, watch } = await retryRead(this.client, session, get, signal);
      const member = { data, watch, outdated: false };
      this.known.set(name, member);
      void watch.fired.then(() => this.readAgain(member));
    } catch (error) {
      // It has left since the listing, whose watch has fired.
      if (isCode(error, 'NO_NODE')) return void this.known.delete(name);
      if (!(error instanceof NotAuthorizedError)) throw error;
      const wasRefused = this.known.has(name) && !this.known.get(name)!.watch;
      const member = { data: Buffer.alloc(0), watch: undefined, outdated: false };
      this.known.set(name, member);
      if (!wasRefused) this.reporter.report(error);
      // It rejects only by the signal, after which nothing is read.
      const pause = sleep(RETRY_REFUSED_AFTER, { signals: [signal] });
      void pause.then(
        () => this.readAgain(member),
        () => {},
      );
    }
  }

  private readAgain(member: KnownMember): void {
    member.outdated = true;
    this.wake?.();
  }

  private forget(name: string): void {
    this.known.get(name)?.watch?.remove();
    this.known.delete(name);
  }
}
