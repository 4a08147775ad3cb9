import { BadOptionError } from './errors.js';
import { SessionLife } from './managed-session.js';
import type { Session } from './session.js';
import { Code, type Reply, type WatchKind } from './transport/transport.js';
import type { Acl, CreateMode, Stat, Watch } from './types.js';
import {
  checkAcl,
  checkData,
  checkMode,
  checkOptions,
  checkPath,
  checkSize,
  checkVersion,
} from './validation.js';

interface Content {
  data: Buffer;
  stat: Stat;
}

interface Listing {
  children: string[];
  stat: Stat;
}

interface Existence {
  stat: Stat | undefined;
  watch: Watch;
}

/** The operations of a session: arguments checked, chroot put on and taken off, watches registered. */
export class LiveSession extends SessionLife implements Session {
  async create(
    path: string,
    data?: string | Uint8Array,
    options?: { mode?: CreateMode },
  ): Promise<string> {
    const { mode } = checkOptions(options, ['mode']);
    const content = checkData(data);
    const full = this.#full(path, content);
    const flags = checkMode(mode);
    return this.request(
      'create',
      path,
      (transport, reply: Reply<string>) => transport.create(full, content, flags, undefined, reply),
      (created) => this.relativePath(created),
    );
  }

  async delete(path: string, version = -1): Promise<void> {
    const full = this.#full(path);
    checkVersion(version);
    return this.request(
      'delete',
      path,
      (transport, reply: Reply<void>) => transport.delete(full, version, reply),
      same,
    );
  }

  get(path: string, options: { watch: true }): Promise<Content & { watch: Watch }>;
  get(path: string, options?: { watch?: false }): Promise<Content>;
  async get(path: string, options?: { watch?: boolean }): Promise<Content> {
    const watch = isWatching(options);
    const full = this.#full(path);
    return this.#reading(watch, 'data', full, () =>
      this.request(
        'get',
        path,
        (transport, reply: Reply<Content>) => transport.get(full, watch, reply),
        (content) => (watch ? { ...content, watch: this.watches.add('data', full) } : content),
      ),
    );
  }

  async set(path: string, data: string | Uint8Array, version = -1): Promise<Stat> {
    const content = checkData(data);
    const full = this.#full(path, content);
    checkVersion(version);
    return this.request(
      'set',
      path,
      (transport, reply: Reply<Stat>) => transport.set(full, content, version, reply),
      same,
    );
  }

  exists(path: string, options: { watch: true }): Promise<Existence>;
  exists(path: string, options?: { watch?: false }): Promise<Stat | undefined>;
  async exists(path: string, options?: { watch?: boolean }): Promise<Stat | undefined | Existence> {
    const watch = isWatching(options);
    const full = this.#full(path);
    return this.#reading(watch, 'data', full, () =>
      this.request(
        'exists',
        path,
        (transport, reply: Reply<Stat | undefined>) =>
          transport.exists(full, watch, (code, stat) =>
            // An absent node is an answer like any other, and carries a watch too.
            code === Code.NoNode ? reply(Code.Ok, undefined) : reply(code, stat),
          ),
        (stat) => (watch ? { stat, watch: this.watches.add('data', full) } : stat),
      ),
    );
  }

  children(path: string, options: { watch: true }): Promise<Listing & { watch: Watch }>;
  children(path: string, options?: { watch?: false }): Promise<Listing>;
  async children(path: string, options?: { watch?: boolean }): Promise<Listing> {
    const watch = isWatching(options);
    const full = this.#full(path);
    return this.#reading(watch, 'children', full, () =>
      this.request(
        'children',
        path,
        (transport, reply: Reply<Listing>) => transport.children(full, watch, reply),
        (listing) => (watch ? { ...listing, watch: this.watches.add('children', full) } : listing),
      ),
    );
  }

  async sync(path: string): Promise<void> {
    const full = this.#full(path);
    return this.request(
      'sync',
      path,
      (transport, reply: Reply<void>) => transport.sync(full, reply),
      same,
    );
  }

  async setAcl(path: string, acl: Acl[], version = -1): Promise<void> {
    const full = this.#full(path);
    const entries = checkAcl(acl);
    checkVersion(version);
    return this.request(
      'set the ACL of',
      path,
      (transport, reply: Reply<void>) => transport.setAcl(full, entries, version, reply),
      same,
    );
  }

  async discard(path: string): Promise<void> {
    return this.discardFully(this.#full(path));
  }

  /** Whether createContainer can set an ACL. */
  get createsWithAcl(): boolean {
    return this.capabilities?.aclOnCreate ?? false;
  }

  /** By full path, for ensureContainers: the chroot too may be missing. @param acl checked, and only where it can be set */
  createContainer(full: string, acl: readonly Acl[] | undefined): Promise<string> {
    return this.request(
      'create',
      full,
      (transport, reply: Reply<string>) =>
        transport.create(full, checkData(undefined), checkMode('container'), acl, reply),
      same,
    );
  }

  #reading<T>(watch: boolean, kind: WatchKind, full: string, read: () => Promise<T>): Promise<T> {
    if (!watch) return read();
    const answered = this.watches.ask(kind, full);
    return read().finally(answered);
  }

  #full(path: string, data?: Buffer): string {
    const full = this.fullPath(checkPath(path));
    checkSize(full, data);
    return full;
  }
}

function isWatching(options: { watch?: boolean } | undefined): boolean {
  const { watch = false } = checkOptions(options, ['watch']);
  if (typeof watch !== 'boolean') throw new BadOptionError('watch', watch, 'true or false');
  return watch;
}

const same = <T>(result: T): T => result;
