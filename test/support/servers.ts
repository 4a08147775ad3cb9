import { afterAll, beforeAll } from 'vitest';
import { EmbeddedZooKeeper } from 'nestjs-zookeeper/embedded';
import { fourLetterWord, RealZooKeeper } from './real-zookeeper.js';

type ServerKind = 'embedded' | 'real';

export interface TestServer {
  readonly kind: ServerKind;
  readonly port: number;
  readonly connectString: string;
  /** Only a real server has a process to stop and continue. */
  readonly pid: number | undefined;
  stop(): Promise<void>;
  start(): Promise<void>;
  restart(): Promise<void>;
  /** A znode path that no other test of the run uses. */
  path(name: string): string;
  /** How many watches the server holds, by its own count. */
  watchCount(): Promise<number>;
}

/** Starts one server of the project's kind for the test file that calls it, and stops it after its tests. */
export function useServer(): TestServer {
  const kind = (process.env.ZK_SERVER ?? 'embedded') as ServerKind;
  let real: RealZooKeeper | undefined;
  let embedded: EmbeddedZooKeeper | undefined;
  let paths = 0;

  beforeAll(async () => {
    if (kind === 'real') real = await RealZooKeeper.start();
    else embedded = await EmbeddedZooKeeper.start({ tickTime: 500, minSessionTimeout: 1000 });
  });
  afterAll(async () => {
    await real?.dispose();
    await embedded?.stop();
  });

  const running = () => {
    const server = real ?? embedded;
    if (!server) throw new Error('the server starts in beforeAll: use it inside a test or hook');
    return server;
  };

  return {
    kind,
    get port() {
      return running().port;
    },
    get connectString() {
      return `127.0.0.1:${running().port}`;
    },
    get pid() {
      return real?.pid;
    },
    stop: async () => running().stop(),
    start: async () => (real ? real.start() : embedded!.restart()),
    restart: async () => running().restart(),
    path: (name) => `/test-${process.pid}-${++paths}-${name}`,
    watchCount: async () => {
      const answer = await fourLetterWord(running().port, 'wchs');
      return Number(/Total watches:(\d+)/.exec(answer)?.[1] ?? Number.NaN);
    },
  };
}
