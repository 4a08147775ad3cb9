import { hostname } from 'node:os';
import type { Connection, Traffic } from './connection.js';
import type { ServerOptions } from './options.js';
import { PROFILES, type ServerProfile } from './profiles.js';
import { toHex } from './store.js';
import type { Store } from './store.js';

/** The server as the commands see it. */
interface Observed {
  readonly store: Store;
  readonly options: ServerOptions;
  readonly port: number;
  readonly traffic: Traffic;
  readonly connections: ReadonlySet<Connection>;
  /** A setting of the real server's logging, which `stmk` changes and `gtmk` reads. It has no effect here. */
  traceMask: bigint;
}

/** The trace mask that the real server starts with. */
export const INITIAL_TRACE_MASK = 306n;
/** Milliseconds: the real server checks its connections in such steps. */
const CONNECTION_STEP = 10_000;

/**
 * Returns the answer to a four-letter word in the form of the real server; undefined for any other word. An empty answer
 * only ends the connection.
 *
 * @param argument the eight bytes after the word, if they have arrived; the argument of `stmk`
 */
export function fourLetterWord(
  word: string,
  server: Observed,
  asking: Connection,
  argument?: Buffer,
): string | undefined {
  const profile = profileOf(server);
  const isKnown = Object.hasOwn(words, word) && (word !== 'ftfl' || profile.featureFlags);
  if (!isKnown) return undefined;
  asking.reads = false;
  asking.traffic.received++;
  server.traffic.received++;
  const { fourLetterWords } = server.options;
  const isAllowed = ['srvr', ...fourLetterWords].some(
    (allowed) => allowed === word || allowed === '*',
  );
  const refusal = profile.explainsRefusedWords
    ? `${word} is not executed because it is not in the whitelist.\n`
    : '';
  const answer = isAllowed ? words[word](server, argument) : refusal;
  server.traffic.sent++;
  return answer;
}

const words: Record<string, (server: Observed, argument?: Buffer) => string> = {
  ruok: () => 'imok',
  isro: () => 'rw',
  srvr: (server) => lines(titleOf(server), ...summary(server)),
  stat: (server) =>
    lines(
      titleOf(server),
      'Clients:',
      ...connections(server, (connection) => traffic(connection)),
      '',
      ...summary(server),
    ),
  srst({ traffic }) {
    Object.assign(traffic, { received: 0, sent: 0 });
    return lines('Server stats reset.');
  },
  cons: (server) =>
    lines(
      ...connections(server, (connection) => {
        const { session, since, timeout } = connection;
        if (!session) return traffic(connection);
        return `${traffic(connection)},sid=0x${toHex(session.id)},est=${since.getTime()},to=${timeout}`;
      }),
      '',
    ),
  crst({ connections: open }) {
    for (const connection of open) Object.assign(connection.traffic, { received: 0, sent: 0 });
    return lines('Connection stats reset.');
  },
  mntr: monitor,
  // Like the real server, these count data and existence watches only.
  wchs({ store }) {
    const { watchers, paths, total } = store.tree.dataWatches.counts;
    return lines(`${watchers} connections watching ${paths} paths`, `Total watches:${total}`);
  },
  wchc(server) {
    const watching = watches(server).map(({ session, paths }) => tree(session, paths));
    return lines(...watching.flat(), '');
  },
  wchp(server) {
    const byPath = new Map<string, string[]>();
    for (const { session, paths } of watches(server)) {
      for (const path of paths) byPath.set(path, [...(byPath.get(path) ?? []), session]);
    }
    return lines(...[...byPath].flatMap(([path, sessions]) => tree(path, sessions)), '');
  },
  dump,
  // Nothing is on disk.
  dirs: () => lines('datadir_size: 0', 'logdir_size: 0'),
  gtmk: ({ traceMask }) => String(traceMask),
  // Without its argument, the real server closes the connection too.
  stmk(server, argument) {
    if (!argument) return '';
    server.traceMask = argument.readBigInt64BE();
    return String(server.traceMask);
  },
  conf: ({ options, port }) =>
    lines(
      `clientPort=${port}`,
      `tickTime=${options.tickTime}`,
      `maxClientCnxns=${options.maxClientCnxns}`,
      `minSessionTimeout=${options.minSessionTimeout}`,
      `maxSessionTimeout=${options.maxSessionTimeout}`,
      'serverId=0',
    ),
  // Clients read the server's version from here.
  envi: (server) =>
    lines(
      'Environment:',
      `zookeeper.version=${profileOf(server).version}`,
      `host.name=${hostname()}`,
      `java.version=none (Node.js ${process.versions.node})`,
    ),
  ftfl: (server) => lines(...(profileOf(server).featureFlags ?? [])),
};

function profileOf({ options }: Observed): ServerProfile {
  return PROFILES[options.server];
}

function titleOf(server: Observed): string {
  const { versionTitle, version } = profileOf(server);
  return `${versionTitle}: ${version}`;
}

function summary(server: Observed): string[] {
  const { store, connections: open } = server;
  const { received, sent } = server.traffic;
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

/** The connection that asks has the mark 0: the server reads no more from it. */
function connections(server: Observed, describe: (connection: Connection) => string): string[] {
  return [...server.connections].map(
    (connection) => ` ${connection.remote}[${connection.reads ? 1 : 0}](${describe(connection)})`,
  );
}

function traffic({ traffic: { received, sent } }: Connection): string {
  return `queued=0,recved=${received},sent=${sent}`;
}

function monitor(server: Observed): string {
  const { store, traffic: counted } = server;
  const { tree } = store;
  const { version, monitorLines } = profileOf(server);
  return lines(
    `zk_version\t${version}`,
    'zk_server_state\tstandalone',
    `zk_packets_received\t${counted.received}`,
    `zk_packets_sent\t${counted.sent}`,
    `zk_num_alive_connections\t${server.connections.size}`,
    'zk_outstanding_requests\t0',
    `zk_global_sessions\t${store.sessions.size}`,
    `zk_znode_count\t${tree.nodes.size}`,
    `zk_ephemerals_count\t${[...tree.ephemerals.values()].flatMap((paths) => [...paths]).length}`,
    `zk_watch_count\t${tree.dataWatches.counts.total + tree.childWatches.counts.total}`,
    ...monitorLines,
  );
}

function watches({ store, connections: open }: Observed) {
  return [...open]
    .map((watcher) => ({
      session: `0x${toHex(watcher.session?.id ?? 0n)}`,
      paths: store.tree.dataWatches.pathsOf(watcher),
    }))
    .filter(({ paths }) => paths.length > 0);
}

function dump({ store, connections: open }: Observed): string {
  const { ephemerals } = store.tree;
  const clockOffset = Date.now() - store.clock.now();
  const sessions = store.sessions.list().map(({ id, expiresAt }) => ({
    time: Math.round(expiresAt + clockOffset),
    text: `0x${toHex(id)}`,
  }));
  const connected = [...open].map(({ remote, session, timeout }) => ({
    time:
      Math.ceil((Date.now() + (timeout || CONNECTION_STEP)) / CONNECTION_STEP) * CONNECTION_STEP,
    text: `ip: ${remote} sessionId: 0x${toHex(session?.id ?? 0n)}`,
  }));
  return lines(
    'SessionTracker dump:',
    ...expirySets('Session', sessions),
    'ephemeral nodes dump:',
    `Sessions with Ephemerals (${ephemerals.size}):`,
    ...[...ephemerals].flatMap(([id, paths]) => tree(`0x${toHex(id)}:`, paths)),
    'Connections dump:',
    ...expirySets('Connections', connected),
  );
}

/** Lists items by the times at which they expire. */
function expirySets(title: string, items: readonly { time: number; text: string }[]): string[] {
  const times = [...new Set(items.map(({ time }) => time))].sort((a, b) => a - b);
  const sets = times.flatMap((time) => {
    const texts = items.filter((item) => item.time === time).map(({ text }) => text);
    return tree(`${texts.length} expire at ${javaDate(new Date(time))}:`, texts);
  });
  return [`${title} Sets (${times.length})/(${items.length}):`, ...sets];
}

/** Returns a date as Java writes it, such as `Sun Nov 22 22:55:40 UTC 2026`. */
function javaDate(date: Date): string {
  const [weekday, day, month, year, time] = date.toUTCString().split(/,? /);
  return `${weekday} ${month} ${day} ${time} UTC ${year}`;
}

function tree(title: string, items: Iterable<string>): string[] {
  return [title, ...[...items].map((item) => `\t${item}`)];
}

function lines(...all: string[]): string {
  return `${all.join('\n')}\n`;
}
