import { setImmediate } from 'node:timers';
import { ErrorCode } from '../protocol/index.js';
import { checkAcl } from './access-control.js';
import { BadOptionError, type CoordinationError } from './errors.js';
import { rejectSoon } from './pending-requests.js';
import { ADD_WATCH, CREATE_TTL, replyError } from './reply-errors.js';
import type { Session } from './session.js';
import { bytesOfAcl } from './transaction.js';
import { TransactionalSession } from './transactional-session.js';
import type { Reply, Transport, WatchKind } from './transport/transport.js';
import type {
  Acl,
  CreateMode,
  CreateOptions,
  PersistentWatch,
  Stat,
  Watch,
  WatchNotification,
} from './types.js';
import { BOOLEAN, uncheckedRules } from './option-rules.js';
import {
  checkCreateOptions,
  checkData,
  checkFunction,
  checkMode,
  checkOptions,
  checkRequest,
  checkVersion,
} from './validation.js';

type Content = { data: Buffer; stat: Stat };
type Listing = { children: string[]; stat: Stat };
type CreatedAndListed = (
  error: CoordinationError | undefined,
  path?: string,
  listing?: Listing,
) => void;
type Existence = { stat: Stat | undefined; watch: Watch };

const READ_RULES = { watch: BOOLEAN };
const CREATE_RULES = uncheckedRules('mode', 'ttl');
const EPHEMERAL_SEQUENTIAL = checkMode('ephemeral-sequential');

/** The operations of a session. They check the arguments, add and remove the chroot, and register watches. */
export class LiveSession extends TransactionalSession implements Session {
  #lacksAddWatch = false;

  async create(
    path: string,
    data?: string | Uint8Array,
    options: CreateOptions = {},
  ): Promise<string> {
    checkOptions(options, CREATE_RULES);
    const content = checkData(data);
    const full = this.#checkCreate(path, content);
    const { flags, ttl } = checkCreateOptions(options);
    this.assertSupported({ path: full, flags, ttl });
    return this.request(
      ttl === undefined ? 'create' : CREATE_TTL,
      path,
      'leader',
      (transport, reply: Reply<string>) =>
        transport.create(full, content, flags, ttl, this.acl, reply),
      (created) => created.slice(this.chroot.length) || '/',
    );
  }

  /**
   * Creates an ephemeral sequential znode, and lists its parent behind it, in one round trip. For a lock that is free,
   * one callback costs less than the promises of two operations.
   *
   * @param name the name of the znode without its sequence number
   * @param done called once with the error of the create, or the path of the znode and the listing, if it succeeded
   */
  createAndList(parent: string, name: string, data: Uint8Array, done: CreatedAndListed): void {
    let content: Buffer;
    let full: string;
    try {
      content = checkData(data);
      full = this.#checkCreate(`${parent}/${name}`, content);
    } catch (error) {
      return void setImmediate(done, error as BadOptionError);
    }
    let replies = 0;
    let failure: CoordinationError | undefined;
    let created: string | undefined;
    let listed: Listing | undefined;
    const transport = this.addPending('create', parent, done);
    if (!transport) return;
    const onReply = () => {
      if (++replies === 2 && this.removePending(done)) done(failure, created, listed);
    };
    const onCreated = this.deadline.extendedBy<string>((code, result) => {
      if (code === ErrorCode.ok) created = result!.slice(this.chroot.length);
      else failure = replyError(code, 'create', parent);
      onReply();
    });
    const onListed: Reply<Listing> = (code, listing) => {
      if (code === ErrorCode.ok) listed = listing;
      onReply();
    };
    if (transport.create(full, content, EPHEMERAL_SEQUENTIAL, undefined, this.acl, onCreated)) {
      // If the listing was not sent, the reply to the create still counts.
      if (!transport.children(this.chroot + parent, false, onListed)) onReply();
    } else if (this.removePending(done)) rejectSoon('create', parent, done);
  }

  async delete(path: string, version = -1): Promise<void> {
    const full = checkRequest(this.chroot, path);
    checkVersion(version);
    return this.request('delete', path, 'leader', (transport, reply: Reply<void>) =>
      transport.delete(full, version, reply),
    );
  }

  get(path: string, options: { watch: true }): Promise<Content & { watch: Watch }>;
  get(path: string, options?: { watch?: false }): Promise<Content>;
  async get(path: string, options?: { watch?: boolean }): Promise<Content> {
    return this.#read(
      'get',
      'data',
      path,
      options,
      (transport, full, watch, reply: Reply<Content>) => transport.get(full, watch, reply),
      (content, watch) => (watch ? { ...content, watch } : content),
    );
  }

  async set(path: string, data: string | Uint8Array, version = -1): Promise<Stat> {
    const content = checkData(data);
    const full = checkRequest(this.chroot, path, content);
    checkVersion(version);
    return this.request('set', path, 'leader', (transport, reply: Reply<Stat>) =>
      transport.set(full, content, version, reply),
    );
  }

  exists(path: string, options: { watch: true }): Promise<Existence>;
  exists(path: string, options?: { watch?: false }): Promise<Stat | undefined>;
  async exists(path: string, options?: { watch?: boolean }): Promise<Stat | undefined | Existence> {
    return this.#read(
      'exists',
      'data',
      path,
      options,
      (transport, full, watch, reply: Reply<Stat | undefined>) =>
        transport.exists(full, watch, (code, stat) =>
          // The server also sets a watch on a znode that does not exist.
          code === ErrorCode.noNode ? reply(ErrorCode.ok, undefined) : reply(code, stat),
        ),
      (stat, watch) => (watch ? { stat, watch } : stat),
    );
  }

  children(path: string, options: { watch: true }): Promise<Listing & { watch: Watch }>;
  children(path: string, options?: { watch?: false }): Promise<Listing>;
  async children(path: string, options?: { watch?: boolean }): Promise<Listing> {
    return this.#read(
      'children',
      'children',
      path,
      options,
      (transport, full, watch, reply: Reply<Listing>) => transport.children(full, watch, reply),
      (listing, watch) => (watch ? { ...listing, watch } : listing),
    );
  }

  async addWatch(
    path: string,
    listener: (notification: WatchNotification) => void,
    options: { recursive?: boolean } = {},
  ): Promise<PersistentWatch> {
    const { recursive = false } = checkOptions(options, { recursive: BOOLEAN });
    checkFunction(listener, 'listener');
    const full = checkRequest(this.chroot, path);
    // A server that does not know the request ends the connection after its reply, so it is asked once.
    this.#lacksAddWatch ||= this.connected && this.serverKind !== 'zookeeper';
    if (this.#lacksAddWatch) throw replyError(ErrorCode.unimplemented, ADD_WATCH, path);
    const { add, end } = this.watches.requestPersistent(full, recursive);
    try {
      return await this.request(
        ADD_WATCH,
        path,
        'any server',
        (transport, reply: Reply<void>) =>
          transport.addWatch(full, recursive, (code) => {
            this.#lacksAddWatch = code === ErrorCode.unimplemented;
            reply(code);
          }),
        () =>
          add(({ event, path: changed }) =>
            listener({ event, path: changed.slice(this.chroot.length) || '/' }),
          ),
      );
    } finally {
      end();
    }
  }

  guaranteedDelete(path: string): Promise<void> {
    let full: string;
    try {
      full = checkRequest(this.chroot, path);
    } catch (error) {
      return Promise.reject(error);
    }
    return this.alive ? this.deletes.send(full, this.currentTransport()) : Promise.resolve();
  }

  async sync(path: string): Promise<void> {
    const full = checkRequest(this.chroot, path);
    return this.request('sync', path, 'leader', (transport, reply: Reply<void>) =>
      transport.sync(full, reply),
    );
  }

  async setAcl(path: string, acl: Acl[], version = -1): Promise<void> {
    const full = checkRequest(this.chroot, path);
    const entries = checkAcl(acl);
    checkVersion(version);
    return this.request('set the ACL of', path, 'leader', (transport, reply: Reply<void>) =>
      transport.setAcl(full, entries, version, reply),
    );
  }

  /**
   * Creates one container, or a persistent znode. On servers other than Apache ZooKeeper, which may not support containers,
   * it is always a persistent znode.
   *
   * @param full with the chroot, which may be missing too
   */
  createContainer(full: string, mode: CreateMode = 'container'): Promise<string> {
    const flags = checkMode(this.serverKind === 'zookeeper' ? mode : 'persistent');
    return this.request('create', full, 'leader', (transport, reply: Reply<string>) =>
      transport.create(full, checkData(undefined), flags, undefined, this.acl, reply),
    );
  }

  /**
   * Deletes a container without children.
   *
   * @param full with the chroot
   */
  deleteContainer(full: string): Promise<void> {
    return this.request('delete', full, 'leader', (transport, reply: Reply<void>) =>
      transport.delete(full, -1, reply),
    );
  }

  /**
   * Returns whether a node exists.
   *
   * @param full with the chroot
   */
  hasNode(full: string): Promise<boolean> {
    return this.request('exists', full, 'any server', (transport, reply: Reply<boolean>) =>
      transport.exists(full, false, (code) =>
        code === ErrorCode.noNode ? reply(ErrorCode.ok, false) : reply(code, true),
      ),
    );
  }

  /** Checks the path, and the size of the request. Returns the path below the chroot. */
  #checkCreate(path: string, data: Buffer): string {
    return checkRequest(this.chroot, path, data, bytesOfAcl(this.acl));
  }

  #read<T, R>(
    operation: string,
    kind: WatchKind,
    path: string,
    options: { watch?: boolean } = {},
    send: (transport: Transport, full: string, watch: boolean, reply: Reply<T>) => boolean,
    convert: (result: T, watch: Watch | undefined) => R,
  ): Promise<R> {
    const { watch = false } = checkOptions(options, READ_RULES);
    const full = checkRequest(this.chroot, path);
    const answered = watch && this.watches.addRequest(kind, full);
    const covered = watch && this.watches.covers(kind, full);
    const result = this.request(
      operation,
      path,
      'any server',
      (transport, reply: Reply<T>) => send(transport, full, watch && !covered, reply),
      (read) => convert(read, watch ? this.watches.add(kind, full, covered) : undefined),
    );
    return answered ? result.finally(answered) : result;
  }
}
