// JavaScript with types in comments: programs outside of this repository import this file without a build.
import { spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, writeFile } from 'node:fs/promises';
import net from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { runs } from '../programs.mjs';
import { missingJars, SERVER_CLASS_PATH, ZOOKEEPER_JARS } from './jars.mjs';

/** Milliseconds between two polls of a server that starts. */
const POLL = 50;
/** Milliseconds until a four-letter command counts as unanswered; a paused server never answers. */
const ANSWER_LIMIT = 300;
/** Characters of a server's output that are kept for error messages. */
const LOG_LENGTH = 4_000;

/** Returns whether this machine has a JVM and ZooKeeper's jars. */
export function hasReal() {
  return missingJars(ZOOKEEPER_JARS).length === 0 && runs('java', '-version');
}

/** A process of Apache ZooKeeper from Debian's jars, with a directory of its own. */
export class RealServer {
  /** @type {import('node:child_process').ChildProcess | undefined} */
  #child;
  /** @type {Promise<unknown> | undefined} */
  #closed;
  #log = '';

  /**
   * Use {@link RealServer.in}.
   *
   * @param {string} directory
   * @param {number} port
   * @param {readonly string[]} jvm
   */
  constructor(directory, port, jvm) {
    this.directory = directory;
    this.port = port;
    this.jvm = jvm;
  }

  /**
   * Writes the configuration. `launch()` starts the process.
   *
   * @param {string} directory
   * @param {number} port
   * @param {readonly string[]} configuration lines of zoo.cfg in addition to those that every server has
   * @param {readonly string[]} jvm options of the JVM, in addition likewise
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
    return new RealServer(directory, port, jvm);
  }

  get pid() {
    return /** @type {number} */ (this.#child?.pid);
  }

  get running() {
    return this.#child !== undefined && this.#child.exitCode === null && !this.#child.signalCode;
  }

  /** Starts the process; `serving()` resolves when clients can connect. */
  launch() {
    const child = spawn(
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
    /** @param {Buffer} chunk */
    const keep = (chunk) => {
      this.#log = (this.#log + chunk.toString()).slice(-LOG_LENGTH);
    };
    child.stdout.on('data', keep);
    child.stderr.on('data', keep);
    this.#child = child;
    this.#closed = once(child, 'close').catch(() => {});
  }

  /** @param {AbortSignal} [signal] */
  async serving(signal) {
    while (!(await this.mode())) {
      if (!this.running) throw new Error(`Apache ZooKeeper did not start: ${this.#log}`);
      await delay(POLL, undefined, { signal });
    }
  }

  /** Resolves with 'standalone', 'leader' or 'follower'; with undefined while the server accepts no sessions. */
  async mode() {
    return /^Mode: (\w+)$/m.exec(await fourLetterWord(this.port, 'srvr'))?.[1];
  }

  /** Stops the process with SIGSTOP: its sockets stay open, and nothing is answered. */
  pause() {
    this.#child?.kill('SIGSTOP');
  }

  resume() {
    this.#child?.kill('SIGCONT');
  }

  /** @param {NodeJS.Signals} signal */
  async stop(signal = 'SIGKILL') {
    if (!this.running) return;
    // A paused process receives no signal but SIGKILL.
    if (signal !== 'SIGKILL') this.resume();
    this.#child?.kill(signal);
    await this.#closed;
  }
}

/**
 * Resolves with the answer of the server on a port of this machine to a four-letter command; with an empty
 * string if there is none within `limit` milliseconds.
 *
 * @param {number} port
 * @param {string} word
 */
export async function fourLetterWord(port, word, limit = ANSWER_LIMIT) {
  const socket = net.connect(port, '127.0.0.1');
  let answer = '';
  socket.on('data', (chunk) => (answer += chunk.toString())).on('error', () => {});
  socket.setTimeout(limit, () => socket.destroy());
  socket.write(word);
  await new Promise((resolve) => socket.once('close', resolve));
  return answer;
}

/**
 * Resolves with `count` different free ports. They lie below the range from which Linux assigns ports, so
 * that no other process is assigned one before its server starts.
 *
 * @param {number} count
 */
export async function freePorts(count) {
  /** @type {net.Server[]} */
  const servers = [];
  while (servers.length < count) {
    const server = net.createServer().listen(randomInt(10_000, 32_768), '127.0.0.1');
    try {
      await once(server, 'listening');
      servers.push(server);
    } catch {
      // The port is in use: try another one.
    }
  }
  const ports = servers.map((server) => /** @type {net.AddressInfo} */ (server.address()).port);
  for (const server of servers) server.close();
  await Promise.all(servers.map((server) => once(server, 'close')));
  return ports;
}
