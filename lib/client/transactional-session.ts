import { CreateFlag, ErrorCode } from '../protocol/index.js';
import { ManagedSession, type SessionObserver } from './managed-session.js';
import type { ConnectionPolicy } from './options.js';
import { CREATE_CONTAINER, CREATE_TTL, replyError } from './reply-errors.js';
import {
  checkTransaction,
  type TransactionOperation,
  type TransactionResults,
} from './transaction.js';
import type { MultiOutcome, Reply } from './transport/transport.js';
import type { Acl } from './types.js';

/** What the sessions of a client have in common. */
export interface SessionSettings {
  /** Empty, or an absolute path. */
  readonly chroot: string;
  readonly policy: ConnectionPolicy;
  readonly sessionTimeout: number;
  /** The ACL of the znodes that the session creates. Default: open. */
  readonly acl?: readonly Acl[] | undefined;
}

/** The transactions of a session. */
export abstract class TransactionalSession extends ManagedSession {
  /** Private at run time as well: the settings of a client have its password. */
  readonly #settings: SessionSettings;

  constructor(settings: SessionSettings, observer: SessionObserver) {
    super(settings.chroot, settings.policy, settings.sessionTimeout, observer);
    this.#settings = settings;
  }

  protected get acl(): readonly Acl[] | undefined {
    return this.#settings.acl;
  }

  transaction<const T extends readonly TransactionOperation[]>(
    operations: T,
  ): Promise<TransactionResults<T>> {
    return this.guardedTransaction(operations, []);
  }

  /**
   * As `transaction`, if some znodes exist. The NodeError of one that does not has a negative index.
   *
   * @param guards the paths of these znodes
   */
  async guardedTransaction<const T extends readonly TransactionOperation[]>(
    operations: T,
    guards: readonly string[],
  ): Promise<TransactionResults<T>> {
    const all = checkTransaction(operations, guards, this.#settings);
    all.forEach((each, index) => {
      if (each.kind === 'create') this.assertSupported(each, index - guards.length);
    });
    const outcome: MultiOutcome = await this.request(
      'transaction on',
      all[0]!.path.slice(this.chroot.length) || '/',
      'leader',
      (transport, reply: Reply<MultiOutcome>) => transport.multi(all, this.acl, reply),
    );
    if ('failed' in outcome) {
      const { failed, code } = outcome;
      const { path, ...operation } = all[failed]!;
      const isTtl = operation.kind === 'create' && operation.ttl !== undefined;
      throw replyError(
        code,
        isTtl ? CREATE_TTL : operation.kind,
        path.slice(this.chroot.length) || '/',
        failed - guards.length,
      );
    }
    const results = outcome.results.map((result) =>
      typeof result === 'string' ? result.slice(this.chroot.length) || '/' : result,
    );
    return results.slice(guards.length) as TransactionResults<T>;
  }

  /**
   * Refuses a container or a znode with a TTL on servers other than Apache ZooKeeper before the request is sent. A ClickHouse
   * Keeper that does not support such a znode would close the connection, and the session would end with it.
   *
   * @throws NodeError with the code UNIMPLEMENTED
   */
  protected assertSupported(
    { path, flags, ttl }: { path: string; flags: number; ttl: number | undefined },
    index?: number,
  ): void {
    if (this.serverKind === undefined || this.serverKind === 'zookeeper') return;
    if (ttl === undefined && flags !== CreateFlag.container) return;
    const operation = ttl === undefined ? CREATE_CONTAINER : CREATE_TTL;
    const relative = path.slice(this.chroot.length) || '/';
    throw replyError(ErrorCode.unimplemented, operation, relative, index);
  }
}
