import {
  type ConnectionState,
  connectWire,
  ZkClient,
  type ZkClientOptions,
} from '../client/index.js';
import {
  EmbeddedZooKeeper,
  type EmbeddedZooKeeperOptions,
  type Faults,
} from '../embedded/index.js';
import { InProcessZooKeeper } from '../embedded/in-process-zookeeper.js';
import { type Ensemble, ZK_ENSEMBLE } from '../zk.ensemble.js';

/** The address in the connect string of clients that connect without sockets. Nothing connects to it. */
const NOWHERE = '127.0.0.1:1';

/** The method of Nest's TestingModuleBuilder that {@link TestZooKeeper.override} calls. */
export interface Overridable<Builder> {
  overrideProvider(token: unknown): { useValue(value: unknown): Builder };
}

/**
 * A ZooKeeper server for one test file, or for each of its tests. It keeps its data in memory.
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
   * Starts the embedded server in a worker thread, in about 50 milliseconds. Other processes and other kinds of
   * clients can connect to it too.
   */
  static async embedded(options?: EmbeddedZooKeeperOptions): Promise<TestZooKeeper> {
    const server = await EmbeddedZooKeeper.start(options);
    return new TestZooKeeper(server, { connectString: server.connectString });
  }

  /**
   * Returns the same server in this thread. Only clients of this process can connect to it: over the wire transport,
   * without sockets.
   */
  static inProcess(
    options?: Pick<EmbeddedZooKeeperOptions, 'server' | 'tickTime' | 'containerCheckInterval'>,
  ): TestZooKeeper {
    const server = new InProcessZooKeeper(options);
    const connect = connectWire(() => server.connect());
    return new TestZooKeeper(server, { connectString: NOWHERE, connect });
  }

  /** The address of the server for any client; undefined for {@link inProcess}. */
  get connectString(): string | undefined {
    return this.ensemble.connect ? undefined : this.ensemble.connectString;
  }

  /** The faults that a test can inject between the server and its clients. */
  get faults(): Faults {
    return this.server.faults;
  }

  /** Connects every ZkModule connection of a Nest testing module to this server, whatever `connectString` its options have. */
  override<Builder extends Overridable<Builder>>(builder: Builder): Builder {
    return builder.overrideProvider(ZK_ENSEMBLE).useValue(this.ensemble);
  }

  /** Resolves to a connected client, for recipes without Nest. The caller closes it. */
  async client(options: Omit<ZkClientOptions, 'connectString'> = {}): Promise<ZkClient> {
    const { connectString, connect } = this.ensemble;
    const client = new ZkClient({ ...options, connectString }, connect);
    await client.connect();
    return client;
  }

  /**
   * Ends the session of a client, as its timeout does. Resolves when the client has noticed: its leases are lost then,
   * and it connects with a new session.
   */
  async expireSession(client: ZkClient): Promise<void> {
    const { id } = await client.session();
    await Promise.all([reached(client, 'LOST'), this.server.expireSession(id)]);
  }

  /** Breaks the connection of a client. Resolves when the client has noticed; it reconnects by itself. */
  async dropConnection(client: ZkClient): Promise<void> {
    const { id } = await client.session();
    await Promise.all([reached(client, 'SUSPENDED'), this.server.dropConnections(id)]);
  }

  /** Moves the clock of the server forward by `ms` milliseconds; see {@link EmbeddedZooKeeper.skipClock}. */
  skipClock(ms: number): Promise<void> {
    return this.server.skipClock(ms);
  }

  /** Stops the server. Close its clients first; otherwise they try to reconnect. */
  stop(): Promise<void> {
    return this.server.stop();
  }

  /** The same as {@link stop}. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }
}

function reached(client: ZkClient, wanted: ConnectionState): Promise<void> {
  return new Promise((resolve) => {
    const unsubscribe = client.onState(({ state }) => {
      if (state !== wanted) return;
      unsubscribe();
      resolve();
    });
  });
}
