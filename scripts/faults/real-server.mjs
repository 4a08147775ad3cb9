import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import net from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

const JARS = '/usr/share/java';
/** Milliseconds between two looks at whether it serves. */
const LOOK = 50;
/** Milliseconds to wait for an answer: one that was stopped as it stands gives none. */
const PATIENCE = 300;

export function hasReal() {
  if (!existsSync(`${JARS}/zookeeper.jar`)) return false;
  try {
    execFileSync('java', ['-version'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

/** One process of Apache ZooKeeper from Debian's jars, on a directory of its own. */
export class RealServer {
  #child;
  #closed;

  /** @param configuration lines of zoo.cfg beyond those that every server has */
  static async in(directory, port, configuration) {
    await mkdir(directory, { recursive: true });
    const lines = [
      `dataDir=${directory}/data`,
      `clientPort=${port}`,
      'clientPortAddress=127.0.0.1',
      'maxClientCnxns=0',
      'admin.enableServer=false',
      '4lw.commands.whitelist=*',
      ...configuration,
    ];
    await writeFile(join(directory, 'zoo.cfg'), lines.join('\n'));
    const server = new RealServer();
    server.directory = directory;
    server.port = port;
    return server;
  }

  get pid() {
    return this.#child.pid;
  }

  get running() {
    return this.#child !== undefined && this.#child.exitCode === null && !this.#child.signalCode;
  }

  /** Starts the process; it serves some time later. */
  launch() {
    this.#child = spawn(
      'java',
      [
        '-Xmx256m',
        '-XX:+UseSerialGC',
        '-XX:TieredStopAtLevel=1',
        '-Dzookeeper.forceSync=no',
        '-Dznode.container.checkIntervalMs=500',
        '-cp',
        `${JARS}/zookeeper.jar:${JARS}/zookeeper-jute.jar:${JARS}/*`,
        'org.apache.zookeeper.server.quorum.QuorumPeerMain',
        join(this.directory, 'zoo.cfg'),
      ],
      { stdio: 'ignore' },
    );
    this.#closed = once(this.#child, 'close').catch(() => {});
  }

  async serving(signal) {
    while (!(await this.mode())) {
      if (!this.running) throw new Error('the real ZooKeeper did not start');
      await delay(LOOK, undefined, { signal });
    }
  }

  /** 'standalone', 'leader', 'follower'; undefined while it takes no sessions. */
  async mode() {
    return /^Mode: (\w+)$/m.exec(await fourLetterWord(this.port, 'srvr'))?.[1];
  }

  /** Stops the process as it stands: its sockets stay open and nobody answers. */
  pause() {
    this.#child.kill('SIGSTOP');
  }

  resume() {
    this.#child.kill('SIGCONT');
  }

  async stop(signal = 'SIGKILL') {
    if (!this.running) return;
    // One that was stopped as it stood hears of no other signal.
    if (signal !== 'SIGKILL') this.resume();
    this.#child.kill(signal);
    await this.#closed;
  }
}

/** The answer of the server on a port of this machine; empty where there is none in time. */
export async function fourLetterWord(port, word) {
  const socket = net.connect(port, '127.0.0.1');
  let answer = '';
  socket.on('data', (chunk) => (answer += chunk)).on('error', () => {});
  socket.setTimeout(PATIENCE, () => socket.destroy());
  socket.write(word);
  await new Promise((resolve) => socket.once('close', resolve));
  return answer;
}

/** So many ports, all different. */
export async function freePorts(count) {
  const servers = Array.from({ length: count }, () => net.createServer().listen(0, '127.0.0.1'));
  await Promise.all(servers.map((server) => once(server, 'listening')));
  const ports = servers.map((server) => server.address().port);
  for (const server of servers) server.close();
  await Promise.all(servers.map((server) => once(server, 'close')));
  return ports;
}
