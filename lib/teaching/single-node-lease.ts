import {
  ConnectionError,
  NodeError,
  type Session,
  type Watch,
  type ZkClient,
} from '../client/index.js';
import { LeaseLostError } from '../recipes/errors.js';
import { type AcquireOptions, LeaseBase } from '../recipes/lease.js';
import { cancelled, Waiter, type Wanted, type WaitRequest } from '../recipes/internals/waiter.js';
import { stateChange } from '../recipes/internals/session-retry.js';

/** A node that bears the id as its data was made by us, in this session. */
export interface OwnNode {
  readonly client: ZkClient;
  readonly session: Session;
  readonly path: string;
  readonly id: string;
}

/** The right to a single node: it ends by release, with its session, or when somebody deletes the node. */
export class SingleNodeLease extends LeaseBase {
  readonly fencingToken: bigint;
  /** Nobody can ask for this lock. */
  readonly revocation: AbortSignal = new AbortController().signal;
  private state: 'held' | 'released' | 'lost' = 'held';
  private readonly loss = new AbortController();
  private readonly unsubscribe: () => void;
  private deleted: Promise<void> | undefined;

  constructor(
    private readonly node: OwnNode,
    czxid: number,
    private watch: Watch,
  ) {
    super();
    // Each grant makes the node anew, so the zxid of its making rises from holder to holder.
    this.fencingToken = BigInt(czxid);
    this.unsubscribe = node.session.onUntrusted((reason) => this.lose(reason));
    void this.follow();
  }

  get key(): string {
    return this.node.path;
  }

  get path(): string {
    return this.node.path;
  }

  get signal(): AbortSignal {
    return this.loss.signal;
  }

  get held(): boolean {
    return this.state === 'held';
  }

  protected override giveBack(): Promise<void> {
    if (this.state === 'held') this.end('released');
    return this.deleted!;
  }

  private lose(cause: Error): void {
    if (this.state !== 'held') return;
    this.end('lost');
    const message = `the lock on ${this.path} was lost: ${cause.message}`;
    this.loss.abort(new LeaseLostError(message, { cause }));
  }

  private end(state: 'released' | 'lost'): void {
    this.state = state;
    this.unsubscribe();
    this.watch.remove();
    this.deleted = deleteOwn(this.node);
  }

  /** Looks again whenever something happened to the node. */
  private async follow(): Promise<void> {
    const { client, session, path, id } = this.node;
    await this.watch.fired;
    while (this.held) {
      try {
        const { data, watch } = await session.get(path, { watch: true });
        if (!this.held) return watch.remove();
        this.watch = watch;
        if (data.toString() !== id) return this.lose(new Error(`somebody deleted ${path}`));
        await watch.fired;
      } catch (error) {
        if (error instanceof NodeError) return this.lose(new Error(`somebody deleted ${path}`));
        // The end of the session is told by the session itself.
        if (!(error instanceof ConnectionError)) return;
        await stateChange(client);
      }
    }
  }
}

/**
 * Deletes the node if it is ours, in the background where the connection is away. By `discard`, which
 * knows the name alone, a delete that is sent again could hit the node of the next holder.
 */
export async function deleteOwn(node: OwnNode): Promise<void> {
  const { client, session, path, id } = node;
  try {
    const { data } = await session.get(path);
    if (data.toString() === id) await session.delete(path);
  } catch (error) {
    // Any other answer means that the node is gone, or goes with its session.
    if (error instanceof ConnectionError) void stateChange(client).then(() => deleteOwn(node));
  }
}

export interface Turn {
  /** Aborts when nobody wants the turn anymore. */
  readonly signal: AbortSignal;
  /** Called whenever somebody else has the lock. */
  readonly onBlocked: () => void;
}

/** One caller's wait for what `take` resolves with; a result that comes too late is given back. */
export async function awaitTurn<T>(
  wanted: Wanted,
  { wait = Infinity, signal }: Pick<AcquireOptions, 'wait' | 'signal'>,
  take: (turn: Turn) => Promise<T>,
  giveBack: (result: T) => void,
): Promise<T> {
  if (signal?.aborted) throw cancelled(wanted, signal);
  const turn = new AbortController();
  const waiter = new Waiter<T, WaitRequest>({ wanted, wait, signal }, () => turn.abort());
  take({ signal: turn.signal, onBlocked: () => waiter.blocked() }).then(
    (result) => {
      if (!waiter.resolve(result)) giveBack(result);
    },
    (error: unknown) => waiter.reject(error),
  );
  return waiter.promise;
}
