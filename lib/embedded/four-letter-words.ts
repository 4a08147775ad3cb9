import type { Connection, Traffic } from './connection.js';
import type { ServerOptions } from './options.js';
import { toHex } from './sessions.js';
import type { Store } from './store.js';

/** The server as the commands see it. */
interface Observed {
  readonly store: Store;
  readonly options: ServerOptions;
  readonly port: number;
  readonly traffic: Traffic;
  readonly connections: ReadonlySet<Connection>;
}

const VERSION = '3.8.0-embedded';

/** Returns the answer to a four-letter command, in the form of the real server; undefined for any other word. */
export function fourLetterWord(word: string, server: Observed): string | undefined {
  return words.get(word)?.(server);
}

const words: ReadonlyMap<string, (server: Observed) => string> = new Map([
  ['ruok', () => 'imok'],
  ['isro', () => 'rw'],
  ['srvr', (server) => lines(`Zookeeper version: ${VERSION}`, ...summary(server))],
  [
    'stat',
    (server) =>
      lines(
        `Zookeeper version: ${VERSION}`,
        'Clients:',
        ...connections(server, (connection) => traffic(connection)),
        '',
        ...summary(server),
      ),
  ],
  [
    'cons',
    (server) =>
      lines(
        ...connections(server, (connection) => {
          const { session, since, timeout } = connection;
          if (!session) return traffic(connection);
          return `${traffic(connection)},sid=0x${toHex(session.id)},est=${since.getTime()},to=${timeout}`;
        }),
        '',
      ),
  ],
  ['mntr', monitor],
  [
    'wchs',
    ({ store }) => {
      // Like the real server, counts data and existence watches only.
      const { watchers, paths, total } = store.tree.dataWatches.counts;
      return lines(`${watchers} connections watching ${paths} paths`, `Total watches:${total}`);
    },
  ],
  ['dump', dump],
  [
    'conf',
    ({ options, port }) =>
      lines(
        `clientPort=${port}`,
        `tickTime=${options.tickTime}`,
        'maxClientCnxns=0',
        `minSessionTimeout=${options.minSessionTimeout}`,
        `maxSessionTimeout=${options.maxSessionTimeout}`,
        'serverId=0',
      ),
  ],
  // Clients read the server's version from here.
  ['envi', () => lines('Environment:', `zookeeper.version=${VERSION}`)],
]);

function summary({ store, traffic: { received, sent }, connections: open }: Observed): string[] {
  return [
    // Each request is answered in the turn in which it is read, so the latency is 0.
    'Latency min/avg/max: 0/0.0/0',
    `Received: ${received}`,
    `Sent: ${sent}`,
    `Connections: ${open.size}`,
    'Outstanding: 0',
    `Zxid: 0x${store.lastZxid.toString(16)}`,
    'Mode: standalone',
    `Node count: ${store.tree.nodes.size}`,
  ];
}

function connections(server: Observed, describe: (connection: Connection) => string): string[] {
  return [...server.connections].map(
    (connection) => ` ${connection.remote}[1](${describe(connection)})`,
  );
}

function traffic({ traffic: { received, sent } }: Connection): string {
  return `queued=0,recved=${received},sent=${sent}`;
}

function monitor(server: Observed): string {
  const { store, traffic: counted } = server;
  const { tree } = store;
  return lines(
    `zk_version\t${VERSION}`,
    'zk_server_state\tstandalone',
    `zk_packets_received\t${counted.received}`,
    `zk_packets_sent\t${counted.sent}`,
    `zk_num_alive_connections\t${server.connections.size}`,
    'zk_outstanding_requests\t0',
    `zk_global_sessions\t${store.sessions.size}`,
    `zk_znode_count\t${tree.nodes.size}`,
    `zk_ephemerals_count\t${[...tree.ephemerals.values()].flatMap((paths) => [...paths]).length}`,
    `zk_watch_count\t${tree.dataWatches.counts.total + tree.childWatches.counts.total}`,
  );
}

function dump({ store, connections: open }: Observed): string {
  const ids = store.sessions.save().map(({ id }) => id);
  const { ephemerals } = store.tree;
  return lines(
    'SessionTracker dump:',
    `Sessions (${ids.length}):`,
    ...ids.map((id) => `\t0x${toHex(id)}`),
    'ephemeral nodes dump:',
    `Sessions with Ephemerals (${ephemerals.size}):`,
    ...[...ephemerals].flatMap(([id, paths]) => [
      `0x${toHex(id)}:`,
      ...[...paths].map((path) => `\t${path}`),
    ]),
    'Connections dump:',
    ...[...open].map(
      ({ remote, session }) => `\tip: ${remote} sessionId: 0x${toHex(session?.id ?? 0n)}`,
    ),
  );
}

function lines(...all: string[]): string {
  return `${all.join('\n')}\n`;
}
