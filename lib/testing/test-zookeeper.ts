import { type ConnectionState, ZkClient, type ZkClientOptions } from '../client/index.js';
import { connectWire } from '../client/transport/wire-transport.js';
import {
  EmbeddedZooKeeper,
  type EmbeddedZooKeeperOptions,
  type Faults,
} from '../embedded/index.js';
import { InProcessZooKeeper } from '../embedded/in-process-zookeeper.js';
import { type Ensemble, ZK_ENSEMBLE } from '../zk.options.js';

/** What clients within this process call the server without an address. */
const NOWHERE = '127.0.0.1:1';

/** Nest's TestingModuleBuilder, as far as it is needed here. */
export interface Overridable<Builder> {
  overrideProvider(token: unknown): { useValue(value: unknown): Builder };
}

/**
 * A ZooKeeper for one test file, or for each of its tests. It keeps nothing.
 *
 * ```ts
 * const zookeeper = TestZooKeeper.inProcess();
 * const module = await zookeeper
 *   .override(Test.createTestingModule({ imports: [AppModule] }))
 *   .compile();
 * ```
 *
 * @publicApi
 */
export class TestZooKeeper implements AsyncDisposable {
  private constructor(
    private readonly server: EmbeddedZooKeeper | InProcessZooKeeper,
    private readonly ensemble: Ensemble,
  ) {}

  /**
   * The embedded server in a thread of its own: real sockets, for other processes and other clients
   * too. Starts in some 50 milliseconds.
   */
  static async embedded(options?: EmbeddedZooKeeperOptions): Promise<TestZooKeeper> {
    const server = await EmbeddedZooKeeper.start(options);
    return new TestZooKeeper(server, { connectString: server.connectString });
  }

  /**
   * The same server in this thread, and connections to it without sockets: for this process alone, there
   * at once. Its clients speak the wire transport.
   */
  static inProcess(options?: Pick<EmbeddedZooKeeperOptions, 'tickTime'>): TestZooKeeper {
    const server = new InProcessZooKeeper(options);
    const connect = connectWire(() => server.connect());
    return new TestZooKeeper(server, { connectString: NOWHERE, connect });
  }

  /** What clients of other kinds connect to; undefined in process. */
  get connectString(): string | undefined {
    return this.ensemble.connect ? undefined : this.ensemble.connectString;
  }

  /** What can be made to go wrong between the server and its clients. */
  get faults(): Faults {
    return this.server.faults;
  }

  /** Has every ZkModule connection of a testing module use this server, whatever its options say of one. */
  override<Builder extends Overridable<Builder>>(builder: Builder): Builder {
    return builder.overrideProvider(ZK_ENSEMBLE).useValue(this.ensemble);
  }

  /** A connected client, for recipes without Nest. Its closing is the caller's. */
  async client(options: Omit<ZkClientOptions, 'connectString'> = {}): Promise<ZkClient> {
    const { connectString, connect } = this.ensemble;
    const client = new ZkClient({ ...options, connectString }, connect);
    await client.connect();
    return client;
  }

  /**
   * Ends a client's session as its timeout would, and resolves when the client knows: its leases are
   * lost, and it is about to have another session.
   */
  async expireSession(client: ZkClient): Promise<void> {
    const { id } = await client.session();
    const lost = reached(client, 'LOST');
    await this.server.expireSession(id);
    await lost;
  }

  /** Breaks a client's connection, and resolves when the client knows. It comes back by itself. */
  async dropConnection(client: ZkClient): Promise<void> {
    const { id } = await client.session();
    const suspended = reached(client, 'SUSPENDED');
    await this.server.dropConnections(id);
    await suspended;
  }

  /** Lets the server's clock leap ahead by so many milliseconds; see {@link EmbeddedZooKeeper.skipClock}. */
  skipClock(ms: number): Promise<void> {
    return this.server.skipClock(ms);
  }

  /** Close its clients first: they would look for it. */
  stop(): Promise<void> {
    return this.server.stop();
  }

  /** As {@link stop}. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }
}

function reached(client: ZkClient, wanted: ConnectionState): Promise<void> {
  return new Promise((resolve) => {
    const forget = client.onState(({ state }) => {
      if (state !== wanted) return;
      forget();
      resolve();
    });
  });
}
