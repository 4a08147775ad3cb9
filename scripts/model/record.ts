import { channel } from 'node:diagnostics_channel';
import type { History } from '../simulation/history.js';
import type { JobContext, Workload } from '../simulation/workload.js';
import { Replay } from './replay.js';

type Messages = import('nestjs-zookeeper/recipes').DiagnosticsMessages;
type HoldMessage = Messages['nestjs-zookeeper:hold'];
type WaitMessage = Messages['nestjs-zookeeper:wait'];
type World = import('nestjs-zookeeper/testing').World;
type ZkClient = import('nestjs-zookeeper/recipes').ZkClient;

/** The data of all servers after all committed writes. The library does not export it; its own tests may read it. */
type Store = import('../../dist/embedded/store.js').Store;

/** The znodes in the queue of a mutex. Elections and semaphores have such znodes too. */
const QUEUE_NODE = /^(.+)\/[^/]*lock-\d{10}$/;

/** Follows one run, and replays its mutexes in the model. */
export class Recording {
  readonly replay: Replay;
  /** The processes of the sessions of the workload, by their names. */
  readonly #owners = new Map<string, string>();
  /** The locks of each process whose callers have a znode each. */
  readonly #strict = new Set<string>();
  /** The paths of the mutexes. */
  readonly #mutexes = new Set<string>();
  /** The waits of each client for each lock. */
  readonly #waiting = new Map<ZkClient, Map<string, Set<object>>>();
  readonly #histories = new WeakSet<History>();
  readonly #stop: (() => void)[] = [];

  constructor(
    private readonly world: World,
    raisesPzxid: boolean,
  ) {
    this.replay = new Replay(raisesPzxid);
    this.#followServers();
    this.#subscribe<WaitMessage>('nestjs-zookeeper:wait', (message) => this.#onWait(message));
    this.#subscribe<HoldMessage>('nestjs-zookeeper:hold', (message) => this.#onHold(message));
  }

  /**
   * Follows the program of a process. To be called before it starts.
   *
   * @param revocations whether each holder listens for a request for revocation
   */
  follow({ history }: JobContext, revocations: boolean): void {
    if (this.#histories.has(history)) return;
    this.#histories.add(history);
    const { replay } = this;
    const patch = <
      K extends
        'recordSession' | 'recordRequest' | 'recordGrant' | 'recordWork' | 'recordReleaseStart',
    >(
      name: K,
      wrap: (original: History[K]) => History[K],
    ) => {
      history[name] = wrap(
        (history[name] as (...args: never[]) => unknown).bind(history) as History[K],
      );
    };
    patch('recordSession', (original) => (incarnation, session, within) => {
      if (session !== undefined) this.#owners.set(session, incarnation.name);
      original(incarnation, session, within);
    });
    patch('recordRequest', (original) => (incarnation, lock, options) => {
      if (options?.fairness === 'strict') this.#strict.add(`${incarnation.name} ${lock.path}`);
      return original(incarnation, lock, options);
    });
    patch(
      'recordGrant',
      (original) =>
        ((request: never, lease: { revocation?: AbortSignal }) => {
          const record = original(request, lease as never);
          const { path, mode, partOfMultiLock } = record.request;
          if (mode === 'exclusive' && !partOfMultiLock && record.outcome === 'lost')
            replay.distrust(path!, record.token);
          if (revocations && mode === 'exclusive' && !partOfMultiLock)
            lease.revocation?.addEventListener('abort', () => replay.revoke(path!, record.token));
          return record;
        }) as History['recordGrant'],
    );
    patch('recordWork', (original) => (record) => {
      const isHeld = original(record);
      const { path, mode, partOfMultiLock } = record.request;
      if (isHeld && mode === 'exclusive' && !partOfMultiLock) replay.use(path!, record.token);
      return isHeld;
    });
    patch('recordReleaseStart', (original) => (record) => {
      if (record.outcome === 'lost' && record.mode === 'exclusive') replay.lateRelease();
      original(record);
    });
  }

  /** To be called when all requests have settled, before the clients are closed. */
  finish({ running }: Workload): void {
    const waiting = running.flatMap(({ client }) => {
      const locks = client && this.#waiting.get(client);
      return locks ? [...locks].flatMap(([lock, waits]) => (waits.size > 0 ? [lock] : [])) : [];
    });
    this.replay.finish(waiting);
  }

  stop(): void {
    for (const each of this.#stop) each();
  }

  #subscribe<M>(name: string, listener: (message: M) => void): void {
    const topic = channel(name);
    const onMessage = (message: unknown) => listener(message as M);
    topic.subscribe(onMessage);
    this.#stop.push(() => topic.unsubscribe(onMessage));
  }

  #onWait(message: WaitMessage): void {
    const { event, wait } = message;
    const { lock } = wait;
    if (lock.recipe !== 'mutex') return;
    const { client, path } = lock;
    const waits = this.#waitsOf(client, path);
    if (event === 'began') {
      this.#mutexes.add(path);
      waits.add(wait);
      return this.replay.request(path);
    }
    waits.delete(wait);
    if (event !== 'granted') {
      const error = message.error instanceof Error ? message.error.constructor.name : '';
      this.replay.cancel(path, client.sessionId, waits.size === 0, error);
    } else if (message.kind === 're-entered') {
      this.replay.reenter(path, client.sessionId);
    }
  }

  #onHold(message: HoldMessage): void {
    const { hold } = message;
    const { client, path, recipe } = hold.lock;
    if (recipe !== 'mutex') return;
    if (message.event === 'released') return this.replay.release(hold);
    if (message.event === 'lost') return this.replay.lose(hold, message.reason.message);
    const { fencingToken: token, kind } = hold;
    const session = client.sessionId ?? 'none';
    const strict = this.#isStrict(session, path);
    this.replay.grant(hold, { lock: path, session, token, kind, strict });
  }

  #isStrict(session: string, path: string): boolean {
    return this.#strict.has(`${this.#owners.get(session)} ${path}`);
  }

  #lockOf(path: string): string | undefined {
    const lock = QUEUE_NODE.exec(path)?.[1];
    return lock !== undefined && this.#mutexes.has(lock) ? lock : undefined;
  }

  #waitsOf(client: ZkClient, path: string): Set<object> {
    const locks = this.#waiting.get(client) ?? new Map<string, Set<object>>();
    this.#waiting.set(client, locks);
    const waits = locks.get(path) ?? new Set();
    locks.set(path, waits);
    return waits;
  }

  /** Follows the transactions. The copies of the servers follow later. */
  #followServers(): void {
    const { world, replay } = this;
    const server = world.servers[0] as unknown as { store: { store: { committed: Store } } };
    const { tree, sessions, clock } = server.store.store.committed;
    const { create, delete: remove, setData, removeEphemerals, atomically } = tree;
    const { remove: removeSession } = sessions;
    let expired = false;
    /** The changes of the transaction that is being applied. */
    let changes: (() => void)[] | undefined;
    const changed = (change: () => void) => void (changes ? changes.push(change) : change());
    tree.atomically = (work) => {
      const all = (changes = [] as (() => void)[]);
      try {
        atomically.call(tree, work);
      } finally {
        changes = undefined;
      }
      for (const change of all) change();
    };
    sessions.remove = (id) => {
      expired = (sessions.get(id)?.expiresAt ?? Infinity) <= clock.now();
      removeSession.call(sessions, id);
    };
    tree.create = (creation, caller, at) => {
      const result = create.call(tree, creation, caller, at);
      const lock = this.#lockOf(result.path);
      if (lock !== undefined) {
        const session = toHex(caller.session);
        const strict = this.#isStrict(session, lock);
        changed(() => replay.create(lock, result.path, session, at.zxid, strict));
      }
      return result;
    };
    tree.delete = (path, version, caller, at) => {
      remove.call(tree, path, version, caller, at);
      const lock = this.#lockOf(path);
      const session = toHex(caller.session);
      const by = this.#owners.has(session) ? session : undefined;
      if (lock !== undefined) changed(() => replay.delete(lock, path, by, at.zxid));
    };
    tree.setData = (path, data, version, caller, at) => {
      const owner = tree.nodes.get(path)?.owner;
      const result = setData.call(tree, path, data, version, caller, at);
      const lock = this.#lockOf(path);
      if (lock !== undefined && owner === caller.session)
        changed(() => replay.write(lock, path, at.zxid));
      return result;
    };
    tree.removeEphemerals = (id, at) => {
      const session = toHex(id);
      const { event } = world.trace.at(-1) ?? { event: '' };
      const byOperator = event === `session 0x${session} expired`;
      const how = byOperator ? 'ended by an operator' : expired ? 'expired' : 'closed';
      const owner = this.#owners.get(session);
      const isFormer = [...this.#owners].findLast(([, name]) => name === owner)?.[0] !== session;
      replay.endSession(session, how, isFormer, at.zxid);
      removeEphemerals.call(tree, id, at);
    };
  }
}

function toHex(session: bigint): string {
  return BigInt.asUintN(64, session).toString(16);
}
