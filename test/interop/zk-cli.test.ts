import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { describe, expect, test } from 'vitest';
import { useServer } from '../support/servers.js';
import { ZK_CLI } from './programs.js';

/** Lines about events of the connection, which may appear anywhere in the output. */
const GREETING =
  /^(SLF4J.*|log4j.*|Connecting to .*|Welcome to ZooKeeper!|JLine support is .*|WATCHER::|WatchedEvent state:(SyncConnected type:None|Closed).*|)$/;

describe('ZooKeeper’s own command line', () => {
  // Uses its own server, because it lists the root.
  const server = useServer({ own: true });

  /** Returns the output of these commands, without zxids, times, greetings and empty lines. */
  async function say(...commands: string[]): Promise<string[]> {
    // Half of the output goes to stdout, half to stderr.
    const child = spawn('sh', ['-c', `${ZK_CLI} -server ${server.connectString} 2>&1`], {
      timeout: 100_000,
    });
    child.stdin.end([...commands, 'quit', ''].join('\n'));
    const [said] = await Promise.all([text(child.stdout), once(child, 'close')]);
    return said
      .replaceAll(/Zxid = .*/g, 'Zxid = …')
      .replaceAll(/time = .*/g, 'time = …')
      .split('\n')
      .filter((line) => !GREETING.test(line));
  }

  const STAT = ['cZxid = …', 'ctime = …', 'mZxid = …', 'mtime = …', 'pZxid = …'];

  test('creates, lists, reads, writes and deletes', async () => {
    expect(
      await say(
        'create /cli one',
        'create /cli again',
        'create -s /cli/s- x',
        'create -e /cli/e x',
        'create -c /cli/c',
        'create -t 60000 /cli/t x',
        'create -e -s /cli/e- x',
        'ls /cli',
        'ls -R /cli',
        'get /cli',
        'set /cli two',
        'set -s -v 1 /cli three',
        'set -v 7 /cli four',
        'stat /cli/none',
        'delete /cli',
        'delete /cli/e',
        'getEphemerals',
        'getAllChildrenNumber /cli',
        'sync /cli',
        'get -s /cli',
        'deleteall /cli',
        'ls /',
        'get /cli',
      ),
    ).toEqual([
      'Created /cli',
      'Node already exists: /cli',
      'Created /cli/s-0000000000',
      'Created /cli/e',
      'Created /cli/c',
      'Created /cli/t',
      'Created /cli/e-0000000004',
      '[c, e, e-0000000004, s-0000000000, t]',
      '/cli',
      '/cli/c',
      '/cli/e',
      '/cli/e-0000000004',
      '/cli/s-0000000000',
      '/cli/t',
      'one',
      ...STAT,
      'cversion = 5',
      'dataVersion = 2',
      'aclVersion = 0',
      'ephemeralOwner = 0x0',
      'dataLength = 5',
      'numChildren = 5',
      'version No is not valid : /cli',
      'Node does not exist: /cli/none',
      'Node not empty: /cli',
      '[/cli/e-0000000004]',
      '4',
      'Sync is OK',
      'three',
      ...STAT,
      'cversion = 6',
      'dataVersion = 2',
      'aclVersion = 0',
      'ephemeralOwner = 0x0',
      'dataLength = 5',
      'numChildren = 4',
      '[zookeeper]',
      'Node does not exist: /cli',
    ]);
  });

  test('watches, and removes its watches', async () => {
    const said = await say(
      'create /watched x',
      'addWatch -m PERSISTENT_RECURSIVE /watched',
      'create /watched/a x',
      'set /watched/a y',
      'removewatches /watched',
      'set /watched/a z',
      'removewatches /watched',
      'config',
      'deleteall /watched',
    );
    const isEvent = (line: string) => line.startsWith('WatchedEvent');
    expect(said.filter(isEvent)).toEqual([
      'WatchedEvent state:SyncConnected type:NodeCreated path:/watched/a',
      'WatchedEvent state:SyncConnected type:NodeDataChanged path:/watched/a',
      'WatchedEvent state:SyncConnected type:PersistentWatchRemoved path:/watched',
    ]);
    expect(said.findLast((line) => !isEvent(line))).toContain('No such watcher');
  });
});
