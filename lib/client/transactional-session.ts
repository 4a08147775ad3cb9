import { CreateFlag, ErrorCode } from '../protocol/index.js';
import { BadOptionError } from './errors.js';
import { ManagedSession, type SessionObserver } from './managed-session.js';
import type { ConnectionPolicy } from './options.js';
import { asConnectionError, CREATE_CONTAINER, CREATE_TTL, replyError } from './reply-errors.js';
import type { SecondClient } from './second-client.js';
import type { Session } from './session.js';
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
  /** Sends the transactions if the transport cannot. */
  readonly secondClient?: SecondClient;
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
    const { secondClient } = this.#settings;
    const all = checkTransaction(operations, guards, this.#settings);
    all.forEach((each, index) => {
      if (each.kind === 'create') this.assertSupported(each, index - guards.length);
    });
    if (secondClient && this.alive && this.transport && !this.transport.multi) {
      return this.#transactionOverWire(secondClient, operations, guards);
    }
    const outcome: MultiOutcome = await this.request(
      'transaction on',
      all[0]!.path.slice(this.chroot.length) || '/',
      'leader',
      (transport, reply: Reply<MultiOutcome>) => transport.multi?.(all, this.acl, reply) ?? false,
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

  /** Runs a transaction in the session of another client, and makes later reads of this session see its changes. */
  async #transactionOverWire<const T extends readonly TransactionOperation[]>(
    secondClient: SecondClient,
    operations: T,
    guards: readonly string[],
  ): Promise<TransactionResults<T>> {
    for (const [index, operation] of operations.entries()) {
      if (!('create' in operation && operation.mode?.startsWith('ephemeral'))) continue;
      throw new BadOptionError(
        `operations[${index}].mode`,
        operation.mode,
        "a mode that is not ephemeral: over the transport 'native' a transaction runs in another session, which would own the znode. Use transport: 'wire'",
      );
    }
    try {
      const session = (await secondClient.session()) as Session & TransactionalSession;
      return await session.guardedTransaction(operations, guards);
    } catch (error) {
      throw asConnectionError(error) ?? error;
    } finally {
      // Without a connection there is no need: the next one begins with a sync.
      await this.request('sync', '/', 'leader', (transport, reply: Reply<void>) =>
        transport.sync(this.chroot || '/', reply),
      ).catch(() => {});
    }
  }
}
