import { type ChildProcess, fork } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { EmbeddedZooKeeper } from 'nestjs-zookeeper/embedded';
import { Ledger } from './ledger.js';
import type { PartitionsOptions } from './options.js';
import type { WorkerReport, WorkerSettings } from './worker.js';

const WORKER = fileURLToPath(new URL('./worker.js', import.meta.url));
const SESSION_TIMEOUT = 3_000;
/** Milliseconds between two looks at the processes. */
const INTERVAL = 100;
/** Milliseconds within which the processes must be balanced after a change. */
const BALANCE_LIMIT = 60_000;
/** Milliseconds that a process may take to end. */
const GRACE = 10_000;

/** The state of the processes at one time. */
export interface Row {
  /** Seconds since the start. */
  readonly time: number;
  readonly event: string;
  /** How many partitions each process owns; null for a process that does not run. */
  readonly owned: readonly (number | null)[];
  readonly withoutOwner: number;
  /** How many partitions got an owner since the last event. */
  readonly moved: number;
  readonly violations: number;
}

export interface PartitionsResult {
  readonly rows: readonly Row[];
  /** Partitions with two owners at a time, and tokens that did not rise. */
  readonly violations: readonly string[];
  /** Whether the processes were balanced after each change. */
  readonly balanced: boolean;
}

/** Runs the demo. Calls `onRow` when a process was started or killed, and whenever somebody owns other partitions. */
export async function runPartitions(
  options: PartitionsOptions,
  onRow: (row: Row) => void,
  interrupt: AbortSignal,
): Promise<PartitionsResult> {
  await using embedded = options.zookeeper
    ? undefined
    : await EmbeddedZooKeeper.start({ tickTime: 500 });
  const group = new Group(options, onRow, interrupt, {
    connectString: options.zookeeper ?? embedded!.connectString,
    namespace: `/partitions-${randomBytes(4).toString('hex')}`,
    partitions: options.partitions,
    sessionTimeout: SESSION_TIMEOUT,
  });
  try {
    for (const name of group.names) group.start(name);
    group.row(`start ${options.processes}`);
    let balanced = await group.untilBalanced();
    for (let round = 0; balanced && round < options.rounds; round++) {
      const name = group.names[(round + 1) % group.names.length];
      await group.kill(name);
      group.row(`kill -9 ${name}`);
      balanced = await group.untilBalanced();
      if (!balanced) break;
      group.start(name);
      group.row(`start ${name}`);
      balanced = await group.untilBalanced();
    }
    return { rows: group.rows, violations: group.ledger.violations(), balanced };
  } finally {
    await group.stop();
  }
}

class Group {
  readonly ledger = new Ledger();
  readonly rows: Row[] = [];
  readonly names: readonly string[];
  private readonly children = new Map<string, ChildProcess>();
  private readonly began = performance.now();
  private movedBefore = 0;
  private failure: Error | undefined;

  constructor(
    private readonly options: PartitionsOptions,
    private readonly onRow: (row: Row) => void,
    private readonly interrupt: AbortSignal,
    private readonly settings: WorkerSettings,
  ) {
    this.names = Array.from({ length: options.processes }, (_, index) => `p${index + 1}`);
  }

  start(name: string): void {
    const child = fork(WORKER, {
      env: { ...process.env, PARTITIONS_WORKER: JSON.stringify(this.settings) },
      // stdout is reserved for the table.
      stdio: ['ignore', 2, 2, 'ipc'],
    });
    this.children.set(name, child);
    child.on('message', (report: WorkerReport) => this.ledger.add(name, report));
    // After its last message.
    child.once('close', (code, signal) => {
      if (!child.killed) this.failure ??= new Error(`process ${name} ended with ${code ?? signal}`);
      this.ledger.ended(name, Number(process.hrtime.bigint()) / 1e6);
      if (this.children.get(name) === child) this.children.delete(name);
    });
  }

  async kill(name: string): Promise<void> {
    const child = this.children.get(name)!;
    child.kill('SIGKILL');
    await once(child, 'close');
  }

  /** Adds a row. The next one counts the moves from here on. */
  row(event: string): void {
    const owned = this.names.map((name) =>
      this.children.has(name) ? this.ledger.ownedBy(name) : null,
    );
    const row = {
      time: (performance.now() - this.began) / 1000,
      event,
      owned,
      withoutOwner:
        this.options.partitions - owned.reduce<number>((sum, each) => sum + (each ?? 0), 0),
      moved: this.ledger.assignments - this.movedBefore,
      violations: this.ledger.violations().length,
    };
    this.rows.push(row);
    this.onRow(row);
  }

  /**
   * Resolves to true when the processes own all partitions and are balanced, to false if that takes too long. Rejects if a
   * process ended that was not killed.
   */
  async untilBalanced(): Promise<boolean> {
    this.movedBefore = this.ledger.assignments;
    const end = performance.now() + BALANCE_LIMIT;
    for (let shown = this.state(); performance.now() < end;) {
      await sleep(INTERVAL, undefined, { signal: this.interrupt });
      if (this.failure) throw this.failure;
      if (this.balanced) {
        this.row('balanced');
        this.movedBefore = this.ledger.assignments;
        return true;
      }
      if (shown !== this.state()) this.row('');
      shown = this.state();
    }
    this.row('not balanced');
    return false;
  }

  /** Ends all processes. */
  async stop(): Promise<void> {
    await Promise.all(
      [...this.children.values()].map(async (child) => {
        // It has ended, and its streams are not closed yet.
        if (child.exitCode !== null || child.signalCode !== null) return;
        const exited = once(child, 'exit');
        if (child.connected) child.disconnect();
        const timer = setTimeout(() => child.kill('SIGKILL'), GRACE);
        await exited;
        clearTimeout(timer);
      }),
    );
  }

  private get balanced(): boolean {
    const running = [...this.children.keys()].map((name) => this.ledger.ownedBy(name));
    const owned = running.reduce((sum, each) => sum + each, 0);
    const isEven = Math.max(...running) - Math.min(...running) <= 1;
    return owned === this.options.partitions && isEven;
  }

  private state(): string {
    return [...this.children.keys()].map((name) => this.ledger.ownedBy(name)).join();
  }
}
