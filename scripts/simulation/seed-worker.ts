import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { failedReport, type SeedReport } from './seed-report.js';
import { UsageError } from './options.js';
import type { RunOptions } from './types.js';

const WORKER = fileURLToPath(new URL('./worker.js', import.meta.url));
/** Milliseconds of real time that the start of a process, or by default one seed, may take. On a busy machine, a seed took 60 s. */
const TIMEOUT = 180_000;

/** A message of a worker process, or the reason why it sent none. */
type WorkerReply = { readonly message: unknown } | { readonly problem: string };

/** Runs seeds in a worker process, and replaces the process if it dies or does not reply. */
export class SeedWorker {
  #child: ChildProcess | undefined;
  #closed = false;

  /**
   * @param lib the build of the library to test
   * @param timeout the milliseconds of real time that one seed may take
   * @param file the module that the worker process runs
   */
  constructor(
    private readonly lib: string,
    private readonly timeout = TIMEOUT,
    private readonly file = WORKER,
  ) {}

  /**
   * Runs a seed. A process that dies or does not reply is reported as a violation.
   *
   * @throws UsageError if the process cannot load the library
   */
  async run(options: RunOptions): Promise<SeedReport> {
    this.#child ??= await this.#start();
    const nextReply = this.#nextReply(this.#child, this.timeout);
    this.#child.send(options, () => {});
    const reply = await nextReply;
    if ('message' in reply) return reply.message as SeedReport;
    await this.#kill();
    return failedReport(options.seed, 'the run of a seed ends', reply.problem);
  }

  /** Kills the process. A run that has not ended is reported as the run of a process that died. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#kill();
  }

  async #start(): Promise<ChildProcess> {
    if (this.#closed) throw new Error('the worker is closed');
    const child = fork(this.file, [this.lib], {
      // A debugger must attach to the process of the command only.
      execArgv: [
        ...process.execArgv.filter((argument) => !argument.startsWith('--inspect')),
        // In megabytes. Most objects of a run are short-lived.
        '--max-semi-space-size=64',
      ],
      // Output of the code under test must not mix with the figures on stdout.
      stdio: ['ignore', 2, 2, 'ipc'],
    });
    this.#child = child;
    child.on('error', () => {});
    const reply = await this.#nextReply(child, TIMEOUT);
    if ('message' in reply) return child;
    await this.#kill();
    throw new UsageError(`--lib ${this.lib} cannot be loaded: ${reply.problem}`);
  }

  #nextReply(child: ChildProcess, timeout: number): Promise<WorkerReply> {
    return new Promise((resolve) => {
      const settle = (reply: WorkerReply) => {
        clearTimeout(timer);
        child.off('message', onMessage).off('exit', onExit);
        resolve(reply);
      };
      const onMessage = (message: unknown) => settle({ message });
      const onExit = (code: number | null, signal: string | null) =>
        settle({ problem: `its process ended with ${signal ?? `exit code ${code}`}` });
      const timedOut = { problem: `its process did not reply within ${timeout / 1000} s` };
      const timer = setTimeout(settle, timeout, timedOut);
      child.once('message', onMessage).once('exit', onExit);
      // The process may have ended since its last reply.
      if (hasEnded(child)) onExit(child.exitCode, child.signalCode);
    });
  }

  async #kill(): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    if (!child || hasEnded(child)) return;
    const exited = once(child, 'exit');
    child.kill('SIGKILL');
    await exited;
  }
}

function hasEnded({ exitCode, signalCode }: ChildProcess): boolean {
  return exitCode !== null || signalCode !== null;
}
