import type { Store } from './store.js';

/** What the commands report on. */
export interface Observed {
  readonly store: Store;
  readonly connectionCount: number;
}

const VERSION = '3.8.0-embedded';

/** The answer to one of ZooKeeper's four-letter commands; undefined for any other word. */
export function fourLetterWord(word: string, server: Observed): string | undefined {
  const { tree, lastZxid } = server.store;
  switch (word) {
    case 'ruok':
      return 'imok';
    case 'srvr':
      return lines(
        `Zookeeper version: ${VERSION}`,
        `Connections: ${server.connectionCount}`,
        'Outstanding: 0',
        `Zxid: 0x${lastZxid.toString(16)}`,
        'Mode: standalone',
        `Node count: ${tree.nodes.size}`,
      );
    case 'wchs': {
      // Of data and existence watches alone, as the real server counts.
      const { watchers, paths, total } = tree.dataWatches.counts;
      return lines(`${watchers} connections watching ${paths} paths`, `Total watches:${total}`);
    }
    case 'mntr':
      return lines(
        `zk_version\t${VERSION}`,
        'zk_server_state\tstandalone',
        `zk_num_alive_connections\t${server.connectionCount}`,
        `zk_znode_count\t${tree.nodes.size}`,
        `zk_ephemerals_count\t${tree.ephemeralCount}`,
        `zk_watch_count\t${tree.dataWatches.counts.total + tree.childWatches.counts.total}`,
      );
    default:
      return undefined;
  }
}

function lines(...all: string[]): string {
  return `${all.join('\n')}\n`;
}
