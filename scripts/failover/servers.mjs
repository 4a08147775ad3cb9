import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { EmbeddedZooKeeper } from 'nestjs-zookeeper/embedded';

const JARS = '/usr/share/java';

/** The embedded server, or Apache ZooKeeper from Debian's jars: its `port`, the `pid` of its process, and `stop()`. */
export function startServer(kind, { tickTime, signal }) {
  return kind === 'real' ? startReal(tickTime, signal) : startEmbedded(tickTime);
}

export function hasReal() {
  if (!existsSync(`${JARS}/zookeeper.jar`)) return false;
  try {
    execFileSync('java', ['-version'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

async function startEmbedded(tickTime) {
  const server = await EmbeddedZooKeeper.start({ tickTime });
  return { port: server.port, pid: process.pid, stop: () => server.stop() };
}

async function startReal(tickTime, signal) {
  const directory = await mkdtemp(join(tmpdir(), 'failover-'));
  const port = await freePort();
  const configuration = [
    `tickTime=${tickTime}`,
    `dataDir=${directory}/data`,
    `clientPort=${port}`,
    'clientPortAddress=127.0.0.1',
    'admin.enableServer=false',
    '4lw.commands.whitelist=srvr',
  ];
  await writeFile(join(directory, 'zoo.cfg'), configuration.join('\n'));
  const child = spawn(
    'java',
    [
      '-Xmx256m',
      '-XX:+UseSerialGC',
      '-XX:TieredStopAtLevel=1',
      '-Dzookeeper.forceSync=no',
      '-cp',
      `${JARS}/zookeeper.jar:${JARS}/zookeeper-jute.jar:${JARS}/*`,
      'org.apache.zookeeper.server.quorum.QuorumPeerMain',
      join(directory, 'zoo.cfg'),
    ],
    { stdio: 'ignore' },
  );
  const closed = once(child, 'close').catch(() => {});
  const stop = async () => {
    child.kill('SIGKILL');
    await closed;
    await rm(directory, { recursive: true, force: true });
  };
  try {
    while (!(await isServing(port))) {
      if (child.exitCode !== null) throw new Error('the real ZooKeeper did not start');
      await delay(50, undefined, { signal });
    }
  } catch (error) {
    await stop();
    throw error;
  }
  return { port, pid: child.pid, stop };
}

/** It says its mode once it takes sessions. */
async function isServing(port) {
  const socket = net.connect(port, '127.0.0.1');
  let answer = '';
  socket.on('data', (chunk) => (answer += chunk)).on('error', () => {});
  socket.setTimeout(2000, () => socket.destroy());
  socket.write('srvr');
  await new Promise((resolve) => socket.once('close', resolve));
  return answer.includes('Mode: ');
}

async function freePort() {
  const server = net.createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}
