import { randomBytes } from 'node:crypto';
import {
  abortable,
  BadOptionError,
  checkPath,
  isCode,
  parentOf,
  type Session,
  type Watch,
  type ZkClient,
} from '../../client/index.js';
import {
  deleteOwn,
  type ErrorReporter,
  repeatCreate,
  retryRead,
  THIS_PROCESS,
} from '../../kernel/index.js';
import { MemberIdTakenError } from './errors.js';

/** Bytes. The list of members contains each id. */
const MAX_ID_BYTES = 255;

/** Returns an id that no other member has: the host name, the process id and a random number. */
export function uniqueMemberId(): string {
  return `${THIS_PROCESS}:${randomBytes(4).toString('hex')}`;
}

/** Checks the id of a member, which is the name of its znode. */
export function checkMemberId(id: unknown): string {
  const usable = typeof id === 'string' && id !== '' && !id.includes('/');
  if (!usable || Buffer.byteLength(id) > MAX_ID_BYTES) {
    const expected = `a non-empty string of at most ${MAX_ID_BYTES} bytes without a slash`;
    throw new BadOptionError('id', id, expected);
  }
  if (id === '.' || id === '..')
    throw new BadOptionError('id', id, "a name other than '.' and '..'");
  checkPath(`/${id}`, 'id');
  return id;
}

/** The ephemeral znode of a member, in one session after the other. */
export class MemberNode {
  /** The session that may own the znode. */
  private owner: Session | undefined;
  /** The ids of the sessions of this process that may own the znode. */
  private readonly sessions = new Set<string>();

  constructor(
    private readonly client: ZkClient,
    readonly path: string,
    private readonly reporter: Pick<ErrorReporter, 'report' | 'reportOnce'>,
  ) {}

  /**
   * Creates the znode, and its parent. Resolves when it exists and belongs to `session`: to false if it existed before,
   * perhaps with other data. Deletes the znode of a former session of this object. While the session of another process
   * owns a znode of this name, waits until that one is deleted, because the owner may be alive.
   *
   * @throws the reason of `signal`; SessionExpiredError; what the server refuses
   */
  async create(session: Session, data: Uint8Array, signal: AbortSignal): Promise<boolean> {
    const { path, client } = this;
    this.owner = session;
    this.sessions.add(session.id);
    const rules = { parent: parentOf(path), signal };
    // If a create without a reply was applied, its repetition finds the znode of this session.
    const created = await repeatCreate(client, session, rules, async () => {
      signal.throwIfAborted();
      try {
        await session.create(path, data, { mode: 'ephemeral' });
        return true;
      } catch (error) {
        if (!isCode(error, 'NODE_EXISTS')) throw error;
        return (await this.isOwn(session, signal)) ? false : undefined;
      }
    });
    this.sessions.clear();
    this.sessions.add(session.id);
    return created;
  }

  /**
   * Deletes the znode, if it belongs to the session of the last create, also one whose reply was lost. Reports an error,
   * because the caller leaves the group and must finish that.
   */
  async delete(): Promise<void> {
    const { client, owner, path } = this;
    this.owner = undefined;
    if (owner) await deleteOwn(client, owner, path).catch((error) => this.reporter.report(error));
  }

  /** Resolves to true if the znode belongs to `session`, and otherwise to false when it may be gone. */
  private async isOwn(session: Session, signal: AbortSignal): Promise<boolean> {
    const { path, client } = this;
    let watch: Watch | undefined;
    try {
      // A read, because the watch of an exists request would remain on a znode that is gone (CURATOR-107).
      const get = () => session.get(path, { watch: true });
      const read = await retryRead(client, session, get, signal);
      ({ watch } = read);
      const { ephemeralOwner: owner, version } = read.stat;
      if (owner === session.id) return true;
      if (this.sessions.has(owner)) {
        // The server has not ended the former session yet. Nothing of this process uses that session any more.
        await retryRead(client, session, () => session.delete(path, version), signal);
        return false;
      }
      const message = `${path} belongs to another session: another process has this id, or the session of a process that had it has not expired yet; this member waits until the znode is deleted`;
      this.reporter.reportOnce(new MemberIdTakenError(message, { key: parentOf(path) }));
      await abortable(watch.fired, signal);
    } catch (error) {
      if (!isCode(error, 'NO_NODE') && !isCode(error, 'BAD_VERSION')) throw error;
    } finally {
      watch?.remove();
    }
    return false;
  }
}
