import { hostname } from 'node:os';
import { BadOptionError, isCode } from '../client/errors.js';
import { NodeError, type Session, type Stat } from '../client/index.js';
import { checkOptions, uncheckedRules } from '../client/validation.js';
import type { HolderDetails } from './types.js';

/*
 * The data of the znodes that hold locks or wait for them: JSON of the host, the process id and the details of the
 * caller (Curator writes the address of the host), or a request for revocation.
 *
 * A lock that may linger has the field `"linger": true`. It is free although its znode exists: its process deletes the
 * znode as soon as another znode is behind it. Behind such a znode a try (an acquire with `wait: 0`) waits for a short
 * time. Behind any other znode it is refused at once.
 */

/** The data that asks a holder to release its lock. Curator writes the same. */
export const REVOKE_MESSAGE = Buffer.from('__REVOKE__');

/** Bytes. Each request to acquire a lock contains the data. */
const MAX_DATA_BYTES = 4096;

const DETAILS_RULES = uncheckedRules<keyof HolderDetails>('name', 'text', 'data');

const HERE = { host: hostname(), pid: process.pid };

/** The default id of a candidate, and the beginning of that of a member. */
export const THIS_PROCESS = `${HERE.host}:${HERE.pid}`;

/** The data of callers without details, by their permits. They share one array of bytes. */
const plain = new Map<number | undefined, Uint8Array>();
/** The data with the linger mark, by the data without. */
const marked = new WeakMap<Uint8Array, Uint8Array>();

export function holderData(details: HolderDetails | undefined, permits?: number): Uint8Array {
  if (details !== undefined) return encode(details, permits, 'details');
  let data = plain.get(permits);
  if (!data) plain.set(permits, (data = encode({}, permits, 'details')));
  return data;
}

/** The data of callers without details. */
export const DEFAULT_HOLDER_DATA = holderData(undefined);

/** @param option the name of the details in errors */
export function checkDetails(details: unknown, option: string): void {
  if (details !== undefined) encode(details, undefined, option);
}

/** @param data the JSON of holder details */
export function withLingerMark(data: Uint8Array): Uint8Array {
  let copy = marked.get(data);
  if (!copy) {
    copy = Buffer.concat([data.subarray(0, -1), Buffer.from(',"linger":true}')]);
    marked.set(data, copy);
  }
  return copy;
}

/** Returns false for a znode of another library, and after a revocation, which replaces the data. */
export function hasLingerMark(data: Buffer): boolean {
  try {
    return (JSON.parse(data.toString()) as { linger?: unknown } | null)?.linger === true;
  } catch {
    return false;
  }
}

/**
 * The data of one znode of this process. Each write is conditional on the version of the previous write, so a request
 * for revocation by another process is never overwritten.
 */
export class NodeData {
  /** False once the wait has ended: after a grant, only the Handover writes the znode. */
  waiting = true;
  private version = 0;
  private newest: Uint8Array;
  private updating: Promise<boolean> | undefined;
  private last: Promise<unknown> = Promise.resolve();
  /** Whether the reply to the last write was lost, so that the version is unknown. */
  private uncertain = false;

  constructor(
    readonly session: Session,
    readonly path: string,
    /** The data that the server has. */
    public data: Uint8Array,
  ) {
    this.newest = data;
  }

  /** Resolves when the update that is running has ended; undefined if none is. */
  get pending(): Promise<unknown> | undefined {
    return this.updating;
  }

  /**
   * Writes `data` after all earlier writes.
   *
   * @throws NodeError if another process has written or deleted the znode; ConnectionError, SessionExpiredError
   */
  write(data: Uint8Array): Promise<Stat> {
    const written = this.last.then(() => this.set(data));
    // Each caller gets the failure of its own write.
    this.last = written.catch(() => {});
    return written;
  }

  /**
   * Writes the data that the server has again, also a request for revocation, so that the znode gets a new mzxid.
   *
   * @throws NodeError if another process deletes the znode, or writes it during the call; ConnectionError,
   *   SessionExpiredError
   */
  async rewrite(): Promise<Stat> {
    try {
      return await this.write(this.data);
    } catch (error) {
      if (!isCode(error, 'BAD_VERSION')) throw error;
    }
    const { data, stat } = await this.session.get(this.path);
    return this.session.set(this.path, data, stat.version);
  }

  /** Resolves when all writes have ended. Never rejects. */
  async settled(): Promise<void> {
    await this.last;
  }

  /**
   * As {@link write}, but never rejects, and skips data that newer data replaces before it was sent. Resolves to false
   * after a failure that a later update may overcome.
   */
  update(data: Uint8Array): Promise<boolean> {
    this.newest = data;
    this.updating ??= this.writeNewest().finally(() => (this.updating = undefined));
    return this.updating;
  }

  private async writeNewest(): Promise<boolean> {
    try {
      while (this.uncertain || Buffer.compare(this.data, this.newest) !== 0) {
        await this.write(this.newest);
      }
      return true;
    } catch (error) {
      // The next update tries again, unless another process has written the znode. Until then others may not find a
      // deadlock that the claims in the data would show, or find one that has ended.
      return error instanceof NodeError;
    }
  }

  private async set(data: Uint8Array): Promise<Stat> {
    try {
      if (this.uncertain) await this.readVersion();
      this.uncertain = true;
      const stat = await this.session.set(this.path, data, this.version);
      this.uncertain = false;
      this.version = stat.version;
      this.data = data;
      return stat;
    } catch (error) {
      // Another process has written or deleted the znode. With this version the server refuses each later write.
      if (error instanceof NodeError) this.uncertain = false;
      throw error;
    }
  }

  private async readVersion(): Promise<void> {
    const { data, stat } = await this.session.get(this.path);
    if (data.equals(REVOKE_MESSAGE)) throw new NodeError('BAD_VERSION', this.path, -103, 'set');
    this.version = stat.version;
  }
}

function encode(details: unknown, permits: number | undefined, option: string): Uint8Array {
  if (typeof details !== 'object' || details === null) {
    throw new BadOptionError(option, details, 'an object of name, text and data');
  }
  checkOptions(details, DETAILS_RULES, option);
  const { name, text, data } = details as Record<string, unknown>;
  for (const [field, value] of Object.entries({ name, text })) {
    if (value !== undefined && typeof value !== 'string') {
      throw new BadOptionError(`${option}.${field}`, value, 'a string');
    }
  }
  const bytes = Buffer.from(json({ ...HERE, name, text, data, permits }, data, option));
  if (bytes.length > MAX_DATA_BYTES) {
    throw new BadOptionError(option, details, `at most ${MAX_DATA_BYTES} bytes of JSON`);
  }
  return bytes;
}

/** Returns JSON. It cannot express a BigInt or a cycle. */
function json(value: object, data: unknown, option: string): string {
  try {
    return JSON.stringify(value);
  } catch (cause) {
    throw new BadOptionError(`${option}.data`, data, 'a value that JSON can express', { cause });
  }
}
