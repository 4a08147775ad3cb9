import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

const JARS = '/usr/share/java';

export interface RealZooKeeperOptions {
  tickTime?: number;
  minSessionTimeout?: number;
  maxSessionTimeout?: number;
  /** Further lines of zoo.cfg. */
  config?: Record<string, string | number | boolean>;
  /** Further options of the JVM. */
  jvm?: string[];
}

/** Apache ZooKeeper from Debian's jars: one standalone server on loopback, on a data directory of its own. */
export class RealZooKeeper {
  private child: ChildProcess | undefined;

  private constructor(
    readonly port: number,
    private readonly directory: string,
    private readonly jvm: readonly string[],
  ) {}

  static isInstalled(): boolean {
    return existsSync(`${JARS}/zookeeper.jar`);
  }

  static async start(options: RealZooKeeperOptions = {}): Promise<RealZooKeeper> {
    const directory = await mkdtemp(join(tmpdir(), 'zookeeper-'));
    const port = await freePort();
    const { tickTime = 500, minSessionTimeout = 1000, maxSessionTimeout = 60_000 } = options;
    const { config = {}, jvm = [] } = options;
    await writeFile(
      join(directory, 'zoo.cfg'),
      [
        `tickTime=${tickTime}`,
        `dataDir=${directory}/data`,
        `clientPort=${port}`,
        'clientPortAddress=127.0.0.1',
        'maxClientCnxns=0',
        'admin.enableServer=false',
        '4lw.commands.whitelist=*',
        `minSessionTimeout=${minSessionTimeout}`,
        `maxSessionTimeout=${maxSessionTimeout}`,
        'extendedTypesEnabled=true',
        ...Object.entries(config).map(([name, value]) => `${name}=${value}`),
      ].join('\n'),
    );
    const server = new RealZooKeeper(port, directory, jvm);
    await server.start();
    return server;
  }

  get pid(): number {
    const pid = this.child?.pid;
    if (pid === undefined) throw new Error('the ZooKeeper is not running');
    return pid;
  }

  async start(): Promise<void> {
    const child = spawn(
      'java',
      [
        '-Xmx256m',
        '-XX:+UseSerialGC',
        '-XX:TieredStopAtLevel=1',
        '-Dzookeeper.forceSync=no',
        '-Dzookeeper.extendedTypesEnabled=true',
        '-Dznode.container.checkIntervalMs=500',
        ...this.jvm,
        '-cp',
        `${JARS}/zookeeper.jar:${JARS}/zookeeper-jute.jar:${JARS}/*`,
        'org.apache.zookeeper.server.quorum.QuorumPeerMain',
        join(this.directory, 'zoo.cfg'),
      ],
      { stdio: ['ignore', 'pipe', 'pipe'] },
    );
    this.child = child;
    let log = '';
    const keep = (chunk: Buffer) => (log = (log + chunk.toString()).slice(-4000));
    child.stdout.on('data', keep);
    child.stderr.on('data', keep);
    // It answers "ruok" before it takes sessions.
    while (!(await fourLetterWord(this.port, 'srvr').catch(() => '')).includes('Mode: ')) {
      if (child.exitCode !== null) throw new Error(`ZooKeeper did not start: ${log}`);
      await delay(50);
    }
  }

  async stop(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    const child = this.child;
    this.child = undefined;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, 'exit');
    child.kill(signal);
    await exited;
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

export async function fourLetterWord(port: number, word: string): Promise<string> {
  const socket = net.connect(port, '127.0.0.1');
  socket.setTimeout(2000, () => socket.destroy(new Error(`no answer to ${word}`)));
  let answer = '';
  socket.on('data', (chunk: Buffer) => (answer += chunk.toString()));
  await once(socket, 'connect');
  socket.write(word);
  await once(socket, 'close');
  return answer;
}

export async function freePort(): Promise<number> {
  const server = net.createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as net.AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}
