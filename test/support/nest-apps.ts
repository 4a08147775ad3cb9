import {
  ConsoleLogger,
  type INestApplication,
  type ModuleMetadata,
  type Type,
} from '@nestjs/common';
import { Test, type TestingModule } from '@nestjs/testing';
import {
  getZkClientToken,
  LeaderService,
  type Term,
  type ZkClient,
  ZkModule,
  type ZkModuleOptions,
} from 'nestjs-zookeeper';
import type { SimulatedProcess } from 'nestjs-zookeeper/testing';
import { filter, firstValueFrom } from 'rxjs';
import type { ZkModuleExtras } from '../../lib/zk.options.js';
import { ZK_ENSEMBLE } from '../../lib/zk.ensemble.js';
import { transport } from './environment.js';
import { eventually } from './eventually.js';
import { untilNodes } from './recipe-nodes.js';
import { ensembleAt } from './simulated-server.js';
import { afterEach } from './virtual-time.js';
import type { TestServer } from './servers.js';

/** A logger that prints nothing. */
export const silent = new ConsoleLogger({ logLevels: [] });

export interface TestApp extends INestApplication {
  readonly client: ZkClient;
}

export type AppOptions = Partial<ZkModuleOptions> & ZkModuleExtras;

/**
 * Creates Nest applications on the file's server, with one namespace per test, and closes them
 * after each test.
 */
export function useApps(server: TestServer) {
  const open: INestApplication[] = [];
  let namespace = '';
  afterEach(async () => {
    namespace = '';
    await Promise.all(open.splice(0).map((app) => app.close()));
  });

  const options = (overrides: AppOptions = {}): ZkModuleOptions & ZkModuleExtras =>
    ({
      connectString: server.connectString,
      sessionTimeout: 10_000,
      transport,
      namespace: (namespace ||= server.path('nest')),
      ...overrides,
    }) as ZkModuleOptions & ZkModuleExtras;

  /** @param process the simulated process whose network the application uses */
  const start = async (
    metadata: ModuleMetadata,
    overrides?: AppOptions,
    process?: SimulatedProcess,
  ): Promise<TestApp> => {
    const ownOptions = options(overrides);
    const builder = Test.createTestingModule({
      ...metadata,
      imports: [ZkModule.forRoot(ownOptions), ...(metadata.imports ?? [])],
    }).setLogger(silent);
    if (server.kind === 'simulated') {
      const ensemble = ensembleAt(ownOptions.connectString!, process);
      builder.overrideProvider(ZK_ENSEMBLE).useValue(ensemble);
    }
    const module = await builder.compile();
    const app = module.createNestApplication({ logger: false });
    open.push(app);
    await app.init();
    return Object.assign(app, { client: app.get<ZkClient>(getZkClientToken(overrides?.name)) });
  };

  const listen = async (metadata: ModuleMetadata, overrides?: AppOptions) => {
    const app = await start(metadata, overrides);
    await app.listen(0, '127.0.0.1');
    return Object.assign(app, { url: await app.getUrl() });
  };

  return {
    options,
    start,
    /**
     * Starts an application that listens; the result can be passed to supertest and has a `url` for
     * fetch.
     */
    listen,
    /**
     * Starts two applications: the participant `one` leads the election `job`, the participant `other` follows.
     */
    leaderAndFollower: async (metadata: ModuleMetadata, overrides?: AppOptions) => {
      const one = await start(metadata, { participantId: 'one', ...overrides });
      await untilLeading(one.get(LeaderService), 'job');
      const other = await start(metadata, { participantId: 'other', ...overrides });
      other.get(LeaderService).isLeader('job');
      await untilCandidates(one.get(LeaderService), 'job', ['one', 'other']);
      return { one, other };
    },
    /** Starts an application with this provider alone, and returns the provider. */
    provider: async <T>(provider: Type<T>, overrides?: AppOptions): Promise<T> =>
      (await start({ providers: [provider] }, overrides)).get(provider),
  };
}

/** Starts an application that never connects, for tests of what needs no connection. */
export async function startUnconnected(
  metadata: ModuleMetadata,
  defaults?: ZkModuleOptions['defaults'],
): Promise<TestingModule> {
  const connection = ZkModule.forRoot({
    connectString: '127.0.0.1:1',
    lazyConnection: true,
    defaults,
  });
  const module = await Test.createTestingModule({ ...metadata, imports: [connection] })
    .setLogger(silent)
    .compile();
  try {
    return await module.init();
  } catch (error) {
    await module.close();
    throw error;
  }
}

/** Resolves when `count` nodes are in the queue of a key's lock: the holder and the waiters. */
export function untilQueued(client: ZkClient, key: string, count: number): Promise<void> {
  return untilNodes(client, `${client.namespace}/locks/${key}`, count);
}

/** Resolves with the term when this instance leads. */
export async function untilLeading(leaders: LeaderService, election: string): Promise<Term> {
  const elected = leaders.changes(election).pipe(filter(({ isLeader }) => isLeader));
  return (await firstValueFrom(elected)).term!;
}

/** Resolves when these participants are in the election, in this order. */
export async function untilCandidates(
  leaders: LeaderService,
  election: string,
  ids: readonly string[],
): Promise<void> {
  await eventually(async () => {
    const present = (await leaders.participants(election)).map(({ id }) => id);
    if (present.join() !== ids.join()) throw new Error(`${present.join()}, not ${ids.join()}`);
  });
}

/** Ends the client's session; resolves when the client has noticed. */
export async function loseSession(server: TestServer, client: ZkClient): Promise<void> {
  const session = await client.session();
  const lost = new Promise<void>((resolve) => session.onLost(() => resolve()));
  await server.expire(session);
  await lost;
}
