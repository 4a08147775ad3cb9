import { randomBytes } from 'node:crypto';
import { EmbeddedZooKeeper } from 'nestjs-zookeeper/embedded';
import { afterAll, beforeAll, inject } from 'vitest';
import { type Session, ZkClient, type ZkClientOptions } from '../../lib/client/index.js';
import { copiedServer, serverKind, transport } from './environment.js';
import { Link } from './link.js';
import { fourLetterWord, RealZooKeeper } from './real-zookeeper.js';
import { endSession } from './sessions.js';
import { portOfSharedServer } from './shared-servers.js';
import { SimulatedTestServer } from './simulated-server.js';

export { copiedServer, serverHas } from './environment.js';

/** The server of a test file. */
export interface TestServer {
  readonly kind: 'simulated' | 'embedded' | 'real';
  /** The port of the server; a simulated server has none. */
  readonly port: number;
  readonly connectString: string;
  /** The process of a real server that no other file uses. */
  readonly pid: number | undefined;
  // These three need a server that no other file uses.
  stop(): Promise<void>;
  start(): Promise<void>;
  restart(): Promise<void>;
  /** Returns a znode path that no other test of the run uses. */
  path(name: string): string;
  /** Resolves to the number of watches that the server reports. */
  watchCount(): Promise<number>;
  /** Returns a client that is not connected yet. The caller closes it. */
  newClient(options?: Partial<ZkClientOptions>): ZkClient;
  /** Resolves to the network between one client and the server. The caller disposes of it. */
  newLink(options?: LinkOptions): Promise<TestLink>;
  /** Ends a session on the server; its client detects it by itself. */
  expire(session: Session): Promise<void>;
}

export interface LinkOptions {
  /** Milliseconds in each direction. */
  latency?: number;
}

/** The network between one client and its server. It can break, refuse and silently drop. */
export interface TestLink extends AsyncDisposable {
  /** Connects a client through this link. */
  readonly connectString: string;
  /** Breaks every connection; new connections are accepted. */
  cut(): Promise<unknown>;
  /** Breaks every connection and refuses new ones. */
  down(): Promise<unknown>;
  up(): Promise<unknown>;
  /** Holds back all data in both directions, also on new connections. Connections stay open and new ones are accepted. */
  holdAll(): Promise<unknown>;
  /** Holds back data from the server on the present connections; data from the client arrives. */
  holdReplies(): Promise<unknown>;
  /** Delivers the data that was held back. */
  resume(): Promise<unknown>;
  /** Resolves to the number of connections so far. */
  accepted(): Promise<number>;
}

interface ServerOptions {
  /** Whether the file stops, restarts or pauses its server and therefore cannot share it. Default: false. */
  own?: boolean;
}

/**
 * Returns a server of the project's kind. Each test has a simulated server of its own. A real server is shared with the
 * next files of the same worker; an embedded one stops after the tests of the file.
 */
export function useServer({ own = false }: ServerOptions = {}): TestServer {
  if (serverKind === 'simulated') return new SimulatedTestServer();
  const kind = serverKind;
  let server: RealZooKeeper | EmbeddedZooKeeper | undefined;
  let port: number | undefined;
  let paths = 0;
  // Files of one worker share a real server, and its process id.
  const file = randomBytes(4).toString('hex');

  beforeAll(async () => {
    if (kind === 'embedded') {
      server = await EmbeddedZooKeeper.start({
        server: copiedServer,
        tickTime: 500,
        minSessionTimeout: 1000,
        containerCheckInterval: 500,
        fourLetterWords: ['*'],
      });
    } else if (own) server = await RealZooKeeper.start();
    else port = await portOfSharedServer(inject('sharedServers'));
  });
  afterAll(async () => {
    if (server instanceof RealZooKeeper) await server.dispose();
    else await server?.stop();
  });

  const portOf = () => {
    const known = server?.port ?? port;
    if (!known) throw new Error('the server starts in beforeAll: use it inside a test or hook');
    return known;
  };
  const owned = () => {
    if (!server) throw new Error('other files use this server too: call useServer({ own: true })');
    return server;
  };
  const connectString = () => `127.0.0.1:${portOf()}`;

  return {
    kind,
    get port() {
      return portOf();
    },
    get connectString() {
      return connectString();
    },
    get pid() {
      return server instanceof RealZooKeeper ? server.pid : undefined;
    },
    stop: async () => owned().stop(),
    start: async () => {
      const stopped = owned();
      await (stopped instanceof RealZooKeeper ? stopped.start() : stopped.restart());
    },
    restart: async () => owned().restart(),
    path: (name) => `/test-${file}-${++paths}-${name}`,
    watchCount: async () => {
      // The word `wchs` omits watches of children.
      const answer = await fourLetterWord(portOf(), 'mntr');
      return Number(/zk_watch_count\s+(\d+)/.exec(answer)?.[1] ?? Number.NaN);
    },
    newClient: (options) =>
      new ZkClient({
        connectString: connectString(),
        // The native transport refuses an ACL.
        transport: options?.acl ? 'wire' : transport,
        ...options,
      }),
    newLink: (options) => Link.to(portOf(), options),
    expire: (session) => endSession(session, portOf()),
  };
}
