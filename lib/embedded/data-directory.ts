import {
  closeSync,
  constants,
  existsSync,
  fsyncSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { deserialize, serialize } from 'node:v8';
import { crc32 } from 'node:zlib';
import { ProtocolError, Reader, RequestHeader } from '../protocol/index.js';
import { DataTree, type Transaction } from './data-tree.js';
import { type DirectoryLock, lockDirectory } from './directory-lock.js';
import { requests } from './multi.js';
import { type EmbeddedServerKind, PROFILES } from './profiles.js';
import type { LoggedWrite, SavedStore, TransactionLog } from './store.js';
import { KeeperError } from './znode.js';

/** The first bytes of a snapshot: the format of both files. */
const FORMAT = Buffer.from('nestjs-zookeeper data 2\n');
/** Bytes of the log after which a snapshot is written and the log is emptied. */
const MAX_LOG = 64 << 20;
/** Bytes of the length of a record, its checksum, and a checksum of these two and of the header before. */
const HEADER = 12;
/** Milliseconds after a write until the log is flushed to the disk. */
const FLUSH_DELAY = 1_000;
/** More zxids than a crash of the machine can remove from the log: a start skips them, so that no zxid is used twice. */
const ZXID_RESERVE = 2 ** 20;
/** Readable for this user only, and never an existing link to a file elsewhere. */
const NEW_FILE = { flag: 'wx', mode: 0o600, flush: true } as const;
/** Does not open a link either. Windows has no such flag. */
const LOG_FLAGS = constants.O_RDWR | constants.O_CREAT | (constants.O_NOFOLLOW ?? 0);

type LogRecord = readonly [at: Transaction, write: LoggedWrite];

type Snapshot = SavedStore & { readonly kind: EmbeddedServerKind };

/** The data directory cannot be used. The message names the file and the reason. */
export class DataDirectoryError extends Error {}

/**
 * The data directory of a server. The file `snapshot` has the state after one transaction, the file `log` the writes since
 * then. Each write is in the log before it is applied and confirmed, so a server that is killed loses none. A crash of the
 * machine may lose the writes after the last flush of the log. Each start writes a snapshot and empties the log.
 */
export class DataDirectory implements TransactionLog {
  /** The state that the server starts with. */
  readonly saved: SavedStore;
  /** The parts of the log that were not replayed: an interrupted write at the end, and writes that cannot be applied. */
  readonly warnings: string[] = [];
  readonly #snapshotFile: string;
  /** Bytes of the log. */
  #logSize = 0;
  /** The last checksum in the log. */
  #chain = 0;
  #flushTimer: NodeJS.Timeout | undefined;
  #flushed: Promise<void> = Promise.resolve();

  private constructor(
    private readonly path: string,
    private readonly log: FileHandle,
    private readonly onFailure: (error: Error) => never,
    private readonly lock: DirectoryLock,
    private readonly kind: EmbeddedServerKind,
  ) {
    const profile = PROFILES[kind];
    this.#snapshotFile = join(path, 'snapshot');
    const snapshot = this.#readSnapshot();
    const tree = new DataTree(profile, snapshot?.nodes);
    const sessions = new Map((snapshot?.sessions ?? []).map((each) => [each.id, each]));
    let lastZxid = snapshot?.lastZxid ?? 0;
    this.#readLog(([at, write]) => {
      // The server has stopped between writing the snapshot and emptying the log.
      if (at.zxid <= lastZxid) return;
      lastZxid = at.zxid;
      if ('opened' in write) sessions.set(write.opened.id, write.opened);
      if ('closed' in write) sessions.delete(write.closed);
      try {
        apply(tree, at, write);
      } catch (error) {
        // The write failed the first time too.
        const { message } = error as Error;
        this.warnings.push(`cannot apply the write 0x${at.zxid.toString(16)} again: ${message}`);
      }
    });
    this.saved = {
      nodes: tree.nodes,
      sessions: [...sessions.values()],
      // The time keeps the zxids above those of a directory that was removed.
      lastZxid: Math.max(
        lastZxid + ZXID_RESERVE,
        profile.countsZxidsFromOne ? 0 : Date.now() * 1024,
      ),
      skipped: 0,
    };
    this.#writeSnapshot(this.saved);
  }

  /**
   * Locks and reads the directory, or creates it.
   *
   * @param onFailure called when a write cannot be logged; must end the process, so that no such write is confirmed
   * @param kind the server whose behaviour is copied. A directory with the writes of another kind is refused
   * @throws DataDirectoryError
   */
  static async open(
    path: string,
    onFailure: (error: Error) => never,
    kind: EmbeddedServerKind,
  ): Promise<DataDirectory> {
    let lock: DirectoryLock | undefined;
    let log: FileHandle | undefined;
    try {
      makeDirectory(path);
      lock = lockDirectory(path);
      log = await open(join(path, 'log'), LOG_FLAGS, 0o600);
      return new DataDirectory(path, log, onFailure, lock, kind);
    } catch (cause) {
      await log?.close();
      lock?.unlock();
      const { message } = cause as Error;
      throw new DataDirectoryError(`cannot use the data directory ${path}: ${message}`, { cause });
    }
  }

  append(at: Transaction, write: LoggedWrite, save: () => SavedStore): void {
    try {
      if (this.#logSize > MAX_LOG) this.#writeSnapshot(save());
      const payload = serialize([at, write] satisfies LogRecord);
      const record = Buffer.allocUnsafe(HEADER + payload.length);
      record.writeUInt32BE(payload.length, 0);
      record.writeUInt32BE(crc32(payload), 4);
      this.#chain = crc32(record.subarray(0, 8), this.#chain);
      record.writeUInt32BE(this.#chain, 8);
      record.set(payload, HEADER);
      for (let written = 0; written < record.length;) {
        const length = writeSync(
          this.log.fd,
          record,
          written,
          record.length - written,
          this.#logSize,
        );
        written += length;
        this.#logSize += length;
      }
      this.#flushTimer ??= setTimeout(() => this.#flush(), FLUSH_DELAY).unref();
    } catch (error) {
      this.#fail(error as Error);
    }
  }

  /** Flushes the log, and unlocks the directory. */
  async close(): Promise<void> {
    clearTimeout(this.#flushTimer);
    await this.#flushed;
    try {
      this.lock.check();
      await this.log.sync();
    } catch (error) {
      this.#fail(error as Error);
    }
    await this.log.close();
    this.lock.unlock();
  }

  #flush(): void {
    this.#flushTimer = undefined;
    this.#flushed = this.#flushed
      .then(() => {
        this.lock.check();
        return this.log.datasync();
      })
      .catch((error: Error) => this.#fail(error));
  }

  #fail({ message }: Error): never {
    return this.onFailure(
      new DataDirectoryError(`cannot write to the data directory ${this.path}: ${message}`),
    );
  }

  #readSnapshot(): SavedStore | undefined {
    if (!existsSync(this.#snapshotFile)) return undefined;
    const content = readFileSync(this.#snapshotFile);
    const payload = content.subarray(FORMAT.length + 4);
    const isWhole =
      content.length > FORMAT.length + 4 &&
      content.subarray(0, FORMAT.length).equals(FORMAT) &&
      content.readUInt32BE(FORMAT.length) === crc32(payload);
    if (!isWhole) throw new Error(`${this.#snapshotFile} is corrupt`);
    const snapshot = deserialize(payload) as Snapshot;
    const { kind } = snapshot;
    if (kind === this.kind) return snapshot;
    throw new Error(
      `a server with --server ${kind} has written it, and this one has --server ${this.kind}: use --server ${kind}, or another directory with --data`,
    );
  }

  /** Passes each record to `replay`. Moves an incomplete record at the end to another file. */
  #readLog(replay: (record: LogRecord) => void): void {
    const file = join(this.path, 'log');
    const log = readFileSync(file);
    if (log.length > 0 && !existsSync(this.#snapshotFile)) {
      throw new Error(`${this.#snapshotFile} is missing`);
    }
    let chain = 0;
    for (let at = 0; at < log.length;) {
      const rest = log.subarray(at);
      chain = crc32(rest.subarray(0, 8), chain);
      const hasHeader = rest.length >= HEADER && rest.readUInt32BE(8) === chain;
      const length = hasHeader ? rest.readUInt32BE(0) : 0;
      const payload = rest.subarray(HEADER, HEADER + length);
      if (hasHeader && payload.length === length && crc32(payload) === rest.readUInt32BE(4)) {
        replay(deserialize(payload) as LogRecord);
        at += HEADER + length;
      } else if (isInterrupted(rest, length)) {
        const damaged = `${file}.damaged-${Date.now()}`;
        writeFileSync(damaged, rest, NEW_FILE);
        this.warnings.push(
          `ignored the last ${rest.length} bytes of ${file}, an incomplete record: they are in ${damaged}`,
        );
        return;
      } else {
        throw new Error(`${file} is corrupt at byte ${at}`);
      }
    }
  }

  /** Writes the state to the snapshot, and empties the log. */
  #writeSnapshot(state: SavedStore): void {
    this.lock.check();
    const file = `${this.#snapshotFile}.new`;
    const payload = serialize({ ...state, kind: this.kind } satisfies Snapshot);
    const checksum = Buffer.alloc(4);
    checksum.writeUInt32BE(crc32(payload));
    const content = Buffer.concat([FORMAT, checksum, payload]);
    rmSync(file, { force: true });
    writeFileSync(file, content, NEW_FILE);
    renameSync(file, this.#snapshotFile);
    flushDirectory(this.path);
    ftruncateSync(this.log.fd, 0);
    this.#logSize = 0;
    this.#chain = 0;
  }
}

/**
 * Returns whether the rest of the log, which does not begin with a whole record, is one record whose write was interrupted.
 * After a crash of the machine, its end may be zeros, and zeros may follow it.
 *
 * @param length of the record; 0 if its header is not whole
 */
function isInterrupted(rest: Buffer, length: number): boolean {
  return rest.subarray(HEADER + length).every((byte) => byte === 0);
}

/** Applies a write again. */
function apply(tree: DataTree, at: Transaction, write: LoggedWrite): void {
  if ('closed' in write) tree.removeEphemerals(write.closed, at);
  if ('reaped' in write) tree.reap(write.reaped, at);
  if (!('frame' in write)) return;
  const { frame, caller } = write;
  const body = new Reader(Buffer.from(frame));
  const operation = requests[RequestHeader.read(body).type];
  try {
    // The caller has no watches any more.
    const watcher = { notify() {} };
    if (operation?.kind === 'write') operation.parse(body)({ tree, caller, watcher }, at);
  } catch (error) {
    // The request failed the first time too, and changed nothing.
    if (!(error instanceof KeeperError || error instanceof ProtocolError)) throw error;
  }
}

/** Creates a directory and its parents. Node's own function never returns if one cannot be created, such as one below /proc. */
function makeDirectory(path: string): void {
  if (existsSync(path)) return;
  makeDirectory(dirname(path));
  mkdirSync(path, { mode: 0o700 });
}

/** Makes the rename of a file in the directory permanent. Windows has no such operation. */
function flushDirectory(path: string): void {
  if (process.platform === 'win32') return;
  const directory = openSync(path, 'r');
  try {
    fsyncSync(directory);
  } finally {
    closeSync(directory);
  }
}
