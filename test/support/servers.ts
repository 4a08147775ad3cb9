import { afterAll, beforeAll, inject } from 'vitest';
import { EmbeddedZooKeeper, type EmbeddedServerKind } from 'nestjs-zookeeper/embedded';
import type { ZkClientOptions } from '../../lib/client/index.js';
import { PROFILES } from '../../lib/embedded/profiles.js';
import { OpCode } from '../../lib/protocol/index.js';
import { fourLetterWord, RealZooKeeper } from './real-zookeeper.js';
import { portOfSharedServer } from './shared-servers.js';

type ServerKind = 'embedded' | 'real';

/** The server that the embedded server of this project copies. */
export const copiedServer = (process.env.ZK_PROFILE ?? 'zookeeper') as EmbeddedServerKind;
const { missingOperations, resumesSessions } = PROFILES[copiedServer];
const has = (operation: keyof typeof OpCode) => !missingOperations.has(OpCode[operation]);

/** Options of every client in this project: a client uses RaftKeeper on request only. */
export const clientDefaults: Pick<ZkClientOptions, 'allowUnsafeFencing'> =
  copiedServer === 'raftkeeper' ? { allowUnsafeFencing: true } : {};

/** The features that the server of this project has. A test of a feature is skipped where it is missing. */
export const serverHas = {
  containers: has('createContainer'),
  ttlNodes: has('createTTL'),
  persistentWatches: has('addWatch'),
  watchRemoval: has('removeWatches'),
  sessionResume: resumesSessions,
  /** Whether a grant needs no write for its token. That write notifies the next waiter. */
  tokensWithoutWrite: copiedServer === 'zookeeper',
};

/** The embedded servers of this process, by their ports. */
const embedded = new Map<number, EmbeddedZooKeeper>();

/**
 * Returns the embedded server on a port if it copies a server whose sessions no other connection can end: then only the
 * server itself can expire a session.
 */
export function serverThatExpires(port: number): EmbeddedZooKeeper | undefined {
  return copiedServer === 'zookeeper' ? undefined : embedded.get(port);
}

export interface TestServer {
  readonly kind: ServerKind;
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
  /** Returns the number of watches that the server reports. */
  watchCount(): Promise<number>;
}

interface ServerOptions {
  /**
   * Whether the file stops, restarts or pauses its server and therefore cannot share it. Default:
   * false.
   */
  own?: boolean;
}

/**
 * Returns a server of the project's kind. A real server is shared with the next files of the same
 * worker; an embedded one stops after the tests of the file.
 */
export function useServer({ own = false }: ServerOptions = {}): TestServer {
  const kind = (process.env.ZK_SERVER ?? 'embedded') as ServerKind;
  let server: RealZooKeeper | EmbeddedZooKeeper | undefined;
  let port: number | undefined;
  let paths = 0;

  beforeAll(async () => {
    if (kind === 'embedded') {
      server = await EmbeddedZooKeeper.start({
        server: copiedServer,
        tickTime: 500,
        minSessionTimeout: 1000,
        containerCheckInterval: 500,
        fourLetterWords: ['*'],
      });
      embedded.set(server.port, server);
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

  return {
    kind,
    get port() {
      return portOf();
    },
    get connectString() {
      return `127.0.0.1:${portOf()}`;
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
    path: (name) => `/test-${process.pid}-${++paths}-${name}`,
    watchCount: async () => {
      const answer = await fourLetterWord(portOf(), 'wchs');
      return Number(/Total watches:(\d+)/.exec(answer)?.[1] ?? Number.NaN);
    },
  };
}
