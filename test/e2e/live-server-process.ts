import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const MAIN = fileURLToPath(new URL('../../dist-sample/main.js', import.meta.url));

const ZOOKEEPER = `
import { EmbeddedZooKeeper } from 'nestjs-zookeeper/embedded';
const { connectString } = await EmbeddedZooKeeper.start();
console.log('at ' + connectString + '.');
process.stdin.on('end', () => process.exit()).resume();
`;

/** A program that prints where it listens. */
export class ListeningProcess implements AsyncDisposable {
  /** Where the program says that it listens. */
  address = '';
  /** What the program has printed until it listened. */
  output = '';
  /** What the program and its children have written to stderr. */
  errors = '';
  /** Resolves when the program and its children, which have its stderr, have ended. */
  readonly ended: Promise<unknown>;

  private constructor(
    private readonly child: ReturnType<typeof spawn>,
    /** Its directory for temporary files. */
    readonly directory: string,
  ) {
    child.stderr!.on('data', (chunk: Buffer) => (this.errors += chunk.toString()));
    this.ended = once(child, 'close');
  }

  /** `npm start`, on a port that is free. */
  static liveServer(env: NodeJS.ProcessEnv = {}): Promise<ListeningProcess> {
    return ListeningProcess.start([MAIN], /is open at (\S+)\. Try:/, { PORT: '0', ...env });
  }

  /** An embedded ZooKeeper of its own, which can be stopped by a signal. */
  static zookeeper(): Promise<ListeningProcess> {
    return ListeningProcess.start(['--input-type=module', '-e', ZOOKEEPER], /at (\S+)\.\n/);
  }

  private static async start(
    args: string[],
    address: RegExp,
    env: NodeJS.ProcessEnv = {},
  ): Promise<ListeningProcess> {
    const directory = await mkdtemp(join(tmpdir(), 'live-server-'));
    const child = spawn(process.execPath, args, {
      env: { ...process.env, TMPDIR: directory, ...env },
      stdio: 'pipe',
    });
    const listening = new ListeningProcess(child, directory);
    for await (const chunk of child.stdout!.iterator({ destroyOnReturn: false })) {
      listening.output += chunk;
      const found = address.exec(listening.output)?.[1];
      if (!found) continue;
      child.stdout!.resume();
      listening.address = found;
      return listening;
    }
    await listening[Symbol.asyncDispose]();
    throw new Error(`${args.join(' ')} did not start: ${listening.output}${listening.errors}`);
  }

  kill(signal: NodeJS.Signals): void {
    this.child.kill(signal);
  }

  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const exited = once(this.child, 'exit');
    this.child.kill(signal);
    await exited;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.child.kill('SIGCONT');
    await this.stop();
    await rm(this.directory, { recursive: true, force: true });
  }
}
