import { execFileSync, spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, writeFile } from 'node:fs/promises';
import net from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { missingJar, SERVER_CLASS_PATH, ZOOKEEPER_JARS } from './jars.mjs';

/** Milliseconds between two looks at whether it serves. */
const LOOK = 50;
/** Milliseconds to wait for an answer: one that was stopped as it stands gives none. */
const PATIENCE = 300;
/** How much of what a server says is kept for the report of its end: characters. */
const LOG = 4_000;

export function hasReal() {
  if (missingJar(ZOOKEEPER_JARS)) return false;
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
  #log = '';

  /**
   * @param configuration lines of zoo.cfg beyond those that every server has
   * @param jvm options of the JVM, likewise
   */
  static async in(directory, port, configuration, jvm = []) {
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
    server.jvm = jvm;
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
        ...this.jvm,
        '-cp',
        SERVER_CLASS_PATH,
        'org.apache.zookeeper.server.quorum.QuorumPeerMain',
        join(this.directory, 'zoo.cfg'),
      ],
      { stdio: ['ignore', 'pipe', 'pipe'] },
    );
    const keep = (chunk) => (this.#log = (this.#log + chunk).slice(-LOG));
    this.#child.stdout.on('data', keep);
    this.#child.stderr.on('data', keep);
    this.#closed = once(this.#child, 'close').catch(() => {});
  }

  async serving(signal) {
    while (!(await this.mode())) {
      if (!this.running) throw new Error(`the real ZooKeeper did not start: ${this.#log}`);
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

/** The answer of the server on a port of this machine; empty where there is none within `patience` milliseconds. */
export async function fourLetterWord(port, word, patience = PATIENCE) {
  const socket = net.connect(port, '127.0.0.1');
  let answer = '';
  socket.on('data', (chunk) => (answer += chunk)).on('error', () => {});
  socket.setTimeout(patience, () => socket.destroy());
  socket.write(word);
  await new Promise((resolve) => socket.once('close', resolve));
  return answer;
}

/** So many ports, all different, and below those that Linux hands out: nobody is given one before its server begins. */
export async function freePorts(count) {
  const servers = [];
  while (servers.length < count) {
    const server = net.createServer().listen(randomInt(10_000, 32_768), '127.0.0.1');
    try {
      await once(server, 'listening');
      servers.push(server);
    } catch {
      // Taken: another one.
    }
  }
  const ports = servers.map((server) => server.address().port);
  for (const server of servers) server.close();
  await Promise.all(servers.map((server) => once(server, 'close')));
  return ports;
}
