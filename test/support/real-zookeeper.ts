import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePorts, RealServer } from '../../scripts/faults/real-server.mjs';
import { eventually } from './eventually.js';

interface RealZooKeeperOptions {
  tickTime?: number;
  minSessionTimeout?: number;
  maxSessionTimeout?: number;
  /** More lines of zoo.cfg. */
  config?: Record<string, string | number | boolean>;
  /** More options of the JVM. */
  jvm?: string[];
}

/**
 * Apache ZooKeeper from Debian's jars: one standalone server on loopback with its own data
 * directory.
 */
export class RealZooKeeper {
  private constructor(
    private readonly server: RealServer,
    private readonly directory: string,
  ) {}

  static async start(options: RealZooKeeperOptions = {}): Promise<RealZooKeeper> {
    const directory = await mkdtemp(join(tmpdir(), 'zookeeper-'));
    const { tickTime = 500, minSessionTimeout = 1000, maxSessionTimeout = 60_000 } = options;
    const { config = {}, jvm = [] } = options;
    const configuration = [
      `tickTime=${tickTime}`,
      `minSessionTimeout=${minSessionTimeout}`,
      `maxSessionTimeout=${maxSessionTimeout}`,
      'extendedTypesEnabled=true',
      ...Object.entries(config).map(([name, value]) => `${name}=${value}`),
    ];
    const server = await RealServer.in(directory, await freePort(), configuration, [
      '-Dzookeeper.extendedTypesEnabled=true',
      ...jvm,
    ]);
    const zookeeper = new RealZooKeeper(server, directory);
    await zookeeper.start();
    return zookeeper;
  }

  get port(): number {
    return this.server.port;
  }

  get pid(): number {
    return this.server.pid;
  }

  async start(): Promise<void> {
    this.server.launch();
    await this.server.serving();
  }

  stop(signal?: NodeJS.Signals): Promise<void> {
    return this.server.stop(signal);
  }

  async restart(): Promise<void> {
    await this.stop();
    await this.start();
  }

  async dispose(): Promise<void> {
    await this.stop();
    await rm(this.directory, { recursive: true, force: true });
  }
}

/** Sends a word, which may have an argument, and returns the answer. */
export async function fourLetterWord(port: number, word: string | Buffer): Promise<string> {
  const socket = net.connect(port, '127.0.0.1');
  socket.setTimeout(20_000, () => socket.destroy(new Error(`no answer to ${String(word)}`)));
  let answer = '';
  socket.on('data', (chunk: Buffer) => (answer += chunk.toString()));
  await once(socket, 'connect');
  socket.write(word);
  await once(socket, 'close');
  return answer;
}

/** Resolves when a server accepts sessions. The real server reports before that it is well. */
export function untilServing(port: number): Promise<void> {
  return eventually(async () => {
    if (!(await fourLetterWord(port, 'srvr')).includes('Mode: ')) throw new Error('no mode yet');
  });
}

export async function freePort(): Promise<number> {
  const [port] = await freePorts(1);
  return port!;
}
