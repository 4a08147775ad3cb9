import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { ConnectionState } from 'nestjs-zookeeper';
import type { ShopSettings } from '../shop/settings.js';

/** The state of an instance's ZooKeeper client. */
export interface Connection {
  state: ConnectionState;
  session?: string;
}

/** A message from an instance to its parent: first whether it started, then each change of its connection. */
export type FromInstance = { url: string } | { failure: string } | { connection: Connection };

/** A message from the parent to an instance. */
export type ToInstance = Pick<ShopSettings, 'delay'>;

interface InstanceOptions {
  /** The built `instance.js`. */
  entry?: string;
  /** Kills the instance, also while it starts. */
  signal?: AbortSignal;
}

const INSTANCE = fileURLToPath(new URL('../instance.js', import.meta.url));
const GRACE = 5_000;

/** One process of the shop. */
export class Instance implements AsyncDisposable {
  connection: Connection = { state: 'CONNECTING' };
  private stopping = false;

  url = '';

  private constructor(private readonly child: ChildProcess) {
    child.on('message', (message: FromInstance) => {
      if ('connection' in message) this.connection = message.connection;
      if ('url' in message) this.url = message.url;
    });
  }

  static async start(
    settings: ShopSettings,
    { entry = INSTANCE, signal }: InstanceOptions = {},
  ): Promise<Instance> {
    signal?.throwIfAborted();
    const child = fork(entry, {
      env: { ...process.env, SHOP_SETTINGS: JSON.stringify(settings) },
      // stdout is reserved for the figures.
      stdio: ['ignore', 2, 2, 'ipc'],
    });
    const instance = new Instance(child);
    const told = once(child, 'message', { signal }) as Promise<[FromInstance]>;
    const ended = once(child, 'exit', { signal }).then(([code, killedBy]) => {
      throw new Error(`an instance ended at its start (${code ?? killedBy})`);
    });
    try {
      const [message] = await Promise.race([told, ended]);
      if ('failure' in message) throw new Error(message.failure);
      return instance;
    } catch (error) {
      child.kill('SIGKILL');
      throw error;
    } finally {
      for (const wait of [told, ended]) wait.catch(() => undefined);
    }
  }

  get pid(): number {
    return this.child.pid!;
  }

  get alive(): boolean {
    return this.child.exitCode === null && this.child.signalCode === null;
  }

  /** Calls the listener when the process ends unexpectedly. */
  onDeath(listener: (how: number | NodeJS.Signals) => void): void {
    this.child.once('exit', (code, signal) => {
      if (!this.stopping) listener(signal ?? code!);
    });
  }

  tell(settings: ToInstance): void {
    this.child.send(settings);
  }

  /** Kills the process without a graceful shutdown. */
  kill(): void {
    this.child.kill('SIGKILL');
  }

  async stop(): Promise<void> {
    if (!this.alive) return;
    this.stopping = true;
    const exited = once(this.child, 'exit');
    const timer = setTimeout(() => this.child.kill('SIGKILL'), GRACE);
    this.child.disconnect();
    await exited;
    clearTimeout(timer);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }
}

/** Starts all instances of a run. If one fails to start, all are stopped. */
export class Instances implements AsyncDisposable {
  private constructor(readonly all: readonly Instance[]) {}

  static async start(
    count: number,
    settings: ShopSettings,
    options?: InstanceOptions,
  ): Promise<Instances> {
    const starts = Array.from({ length: count }, () => Instance.start(settings, options));
    const settled = await Promise.allSettled(starts);
    const up = settled.flatMap((start) => (start.status === 'fulfilled' ? start.value : []));
    const failed = settled.find((start) => start.status === 'rejected');
    if (failed) {
      await Promise.all(up.map((instance) => instance.stop()));
      throw failed.reason;
    }
    return new Instances(up);
  }

  get alive(): Instance[] {
    return this.all.filter((instance) => instance.alive);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.all.map((instance) => instance.stop()));
  }
}
