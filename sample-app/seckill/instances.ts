import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { ShopSettings } from '../shop/settings.js';
import { inTime } from './in-time.js';
import type { InstanceReport } from './instance-report.js';

/** A message from an instance to its parent: once whether it started, and reports if the parent wants them. */
export type FromInstance = { url: string } | { failure: string } | { report: InstanceReport };

/** A message from the parent to an instance. */
export type ToInstance = Pick<ShopSettings, 'delay'>;

interface InstanceOptions {
  /** The built `instance.js`. */
  entry?: string;
  /** Kills the instance, also while it starts. */
  signal?: AbortSignal;
  /** Receives reports from the beginning. Without it the instance makes none. */
  onReport?: (report: InstanceReport) => void;
}

const INSTANCE = fileURLToPath(new URL('../instance.js', import.meta.url));
/** Milliseconds within which an instance must have started: without the limit, a database that does not answer would delay it forever. */
const START_LIMIT = 60_000;
const GRACE = 5_000;

/** One process of the shop. */
export class Instance implements AsyncDisposable {
  private stopping = false;

  private constructor(
    private readonly child: ChildProcess,
    readonly url: string,
  ) {}

  static async start(
    settings: ShopSettings,
    { entry = INSTANCE, signal, onReport }: InstanceOptions = {},
  ): Promise<Instance> {
    signal?.throwIfAborted();
    const child = fork(entry, {
      env: {
        ...process.env,
        SHOP_SETTINGS: JSON.stringify(settings),
        SHOP_REPORTS: onReport ? '1' : '',
      },
      // stdout is reserved for the figures.
      stdio: ['ignore', 2, 2, 'ipc'],
    });
    const started = new Promise<string>((resolve, reject) => {
      child.on('message', (message: FromInstance) => {
        if ('report' in message) onReport?.(message.report);
        else if ('url' in message) resolve(message.url);
        else reject(new Error(message.failure));
      });
    });
    const ended = once(child, 'exit', { signal }).then(([code, killedBy]) => {
      throw new Error(`an instance ended at its start (${code ?? killedBy})`);
    });
    try {
      const url = await inTime(
        Promise.race([started, ended]),
        START_LIMIT,
        `an instance did not start within ${START_LIMIT / 1000} seconds`,
      );
      return new Instance(child, url);
    } catch (error) {
      child.kill('SIGKILL');
      throw error;
    } finally {
      for (const wait of [started, ended]) wait.catch(() => undefined);
    }
  }

  get pid(): number {
    return this.child.pid!;
  }

  get alive(): boolean {
    return this.child.exitCode === null && this.child.signalCode === null;
  }

  /** Calls the listener when the process ends unexpectedly, after its last report. */
  onDeath(listener: (how: number | NodeJS.Signals) => void): void {
    this.child.once('close', (code, signal) => {
      if (!this.stopping) listener(signal ?? code!);
    });
  }

  updateSettings(settings: ToInstance): void {
    // The channel of a process that dies closes before its exit is reported, and a message may fail after the check.
    if (this.child.connected) this.child.send(settings, () => undefined);
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
    try {
      if (this.child.connected) this.child.disconnect();
      await exited;
    } finally {
      clearTimeout(timer);
    }
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
