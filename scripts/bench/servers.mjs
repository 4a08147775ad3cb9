import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, fdatasyncSync, openSync, writeSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { EmbeddedZooKeeper } from 'nestjs-zookeeper/embedded';
import { SERVER_CLASS_PATH } from '../faults/jars.mjs';
import { freePorts } from '../faults/real-server.mjs';

const TICK_TIME = 2_000;
/** Milliseconds between two polls of a server that starts. */
const POLL = 50;
/** Milliseconds within which a server must serve. */
const START_LIMIT = 30_000;
const SYNCS = 200;
/** Bytes: about the size of a transaction. */
const RECORD = 512;

/**
 * Starts an ensemble of Apache ZooKeeper with its default forceSync: every write is on the disks of a majority before it
 * is answered.
 */
export async function startZooKeeper(signal, count) {
  const ports = await freePorts(3 * count);
  const quorum = Array.from({ length: count }, (_, i) => {
    const [quorumPort, electionPort] = ports.slice(count + 2 * i);
    return `server.${i + 1}=127.0.0.1:${quorumPort}:${electionPort}`;
  });
  const starts = await Promise.allSettled(
    quorum.map((_, i) => startServer(signal, ports[i], i + 1, count > 1 ? quorum : [])),
  );
  const servers = starts.flatMap((start) => (start.status === 'fulfilled' ? [start.value] : []));
  const stop = () => Promise.all(servers.map((server) => server.stop()));
  const failed = starts.find((start) => start.status === 'rejected');
  if (failed) {
    await stop();
    throw failed.reason;
  }
  return { address: servers.map(({ address }) => address).join(','), stop };
}

function startServer(signal, port, id, quorum) {
  return startProcess('zookeeper', port, signal, 'srvr', 'Mode: ', async (directory) => {
    await mkdir(join(directory, 'data'));
    await writeFile(join(directory, 'data', 'myid'), String(id));
    const configuration = [
      `tickTime=${TICK_TIME}`,
      `dataDir=${directory}/data`,
      `clientPort=${port}`,
      'clientPortAddress=127.0.0.1',
      'maxClientCnxns=0',
      'admin.enableServer=false',
      '4lw.commands.whitelist=srvr',
      'initLimit=10',
      'syncLimit=5',
      ...quorum,
    ];
    await writeFile(join(directory, 'zoo.cfg'), configuration.join('\n'));
    return [
      'java',
      '-Xmx1g',
      '-Dzookeeper.forceSync=yes',
      '-cp',
      SERVER_CLASS_PATH,
      'org.apache.zookeeper.server.quorum.QuorumPeerMain',
      join(directory, 'zoo.cfg'),
    ];
  });
}

/** Starts Redis without persistence. */
export async function startRedis(signal) {
  const [port] = await freePorts(1);
  return startProcess('redis', port, signal, 'PING\r\n', '+PONG', (directory) => [
    'redis-server',
    ...['--bind', '127.0.0.1', '--port', String(port), '--dir', directory],
    ...['--save', '', '--appendonly', 'no'],
  ]);
}

export async function startEmbedded() {
  const server = await EmbeddedZooKeeper.start({
    tickTime: TICK_TIME,
    containerCheckInterval: TICK_TIME,
  });
  return { address: server.connectString, stop: () => server.stop() };
}

/** Returns the latencies in milliseconds of writes to the disk that holds ZooKeeper's log. */
export async function measureSync() {
  const directory = await mkdtemp(join(tmpdir(), 'bench-sync-'));
  try {
    const file = openSync(join(directory, 'log'), 'w');
    const record = Buffer.alloc(RECORD);
    const times = Array.from({ length: SYNCS }, () => {
      const start = performance.now();
      writeSync(file, record);
      fdatasyncSync(file);
      return performance.now() - start;
    });
    closeSync(file);
    return times;
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

/** Runs a server until its input ends, and removes its directory, even if the benchmark is killed. Ignores interrupts. */
const GUARD = 'trap "" INT; "$@" & server=$!; cat; kill -9 $server; wait $server; rm -rf "$0"';

/** Starts a server in a temporary directory. Resolves when its reply to `question` contains `answer`. */
async function startProcess(name, port, signal, question, answer, commandIn) {
  const directory = await mkdtemp(join(tmpdir(), `bench-${name}-`));
  const command = await commandIn(directory);
  const guard = spawn('sh', ['-c', GUARD, directory, ...command], {
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  const closed = once(guard, 'close').catch(() => {});
  guard.stdin.on('error', () => {});
  const stop = async () => {
    guard.stdin.end();
    await closed;
  };
  try {
    const deadline = performance.now() + START_LIMIT;
    while (!(await ask(port, question)).includes(answer)) {
      if (performance.now() > deadline) throw new Error(`${name} did not start`);
      await delay(POLL, undefined, { signal });
    }
  } catch (error) {
    await stop();
    throw error;
  }
  return { address: `127.0.0.1:${port}`, stop };
}

async function ask(port, question) {
  const socket = net.connect(port, '127.0.0.1');
  let answer = '';
  socket.on('data', (chunk) => {
    answer += chunk;
    socket.end();
  });
  socket.on('error', () => {});
  socket.setTimeout(2000, () => socket.destroy());
  socket.write(question);
  await new Promise((resolve) => socket.once('close', resolve));
  return answer;
}
