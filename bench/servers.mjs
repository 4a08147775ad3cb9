import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, fdatasyncSync, openSync, writeSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { EmbeddedZooKeeper } from 'nestjs-zookeeper/embedded';
import { SERVER_CLASS_PATH } from '../scripts/faults/jars.mjs';
import { freePorts } from '../scripts/faults/real-server.mjs';

const TICK_TIME = 2_000;
/** Milliseconds between two looks whether a server serves already. */
const POLL = 50;
/** Milliseconds until a server serves, at most. */
const PATIENCE = 30_000;
const SYNCS = 200;
/** Bytes; about a transaction. */
const RECORD = 512;

/** Apache ZooKeeper as it comes: every write is on the disk before it is answered. */
export async function startZooKeeper(signal) {
  const [port] = await freePorts(1);
  return startProcess('zookeeper', port, signal, 'srvr', 'Mode: ', async (directory) => {
    const configuration = [
      `tickTime=${TICK_TIME}`,
      `dataDir=${directory}/data`,
      `clientPort=${port}`,
      'clientPortAddress=127.0.0.1',
      'maxClientCnxns=0',
      'admin.enableServer=false',
      '4lw.commands.whitelist=srvr',
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

/** Redis in memory alone. */
export async function startRedis(signal) {
  const [port] = await freePorts(1);
  return startProcess('redis', port, signal, 'PING\r\n', '+PONG', (directory) => [
    'redis-server',
    ...['--bind', '127.0.0.1', '--port', String(port), '--dir', directory],
    ...['--save', '', '--appendonly', 'no'],
  ]);
}

export async function startEmbedded() {
  const server = await EmbeddedZooKeeper.start({ tickTime: TICK_TIME });
  return { port: server.port, stop: () => server.stop() };
}

/** Milliseconds for each of some writes to the disk that ZooKeeper's log is on. */
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

/** Runs a server until its input ends, and tidies up, whatever becomes of the benchmark: an interrupt is for that alone. */
const GUARD = 'trap "" INT; "$@" & server=$!; cat; kill -9 $server; wait $server; rm -rf "$0"';

/** A server in a directory of its own, once it answers `question` by something with `answer` in it. */
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
    const deadline = performance.now() + PATIENCE;
    while (!(await ask(port, question)).includes(answer)) {
      if (performance.now() > deadline) throw new Error(`${name} did not start`);
      await delay(POLL, undefined, { signal });
    }
  } catch (error) {
    await stop();
    throw error;
  }
  return { port, stop };
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
