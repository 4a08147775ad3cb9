import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { failedReport, type SeedReport } from './seed-report.js';
import { UsageError } from './options.js';
import type { RunOptions } from './types.js';

const WORKER = fileURLToPath(new URL('./worker.js', import.meta.url));

/** A message of a worker process, or the reason why there is none. */
type Answer = { readonly message: unknown } | { readonly problem: string };

/** Runs seeds in a process of its own, which it replaces when it dies or does not answer. */
export class SeedWorker {
  #child: ChildProcess | undefined;
  #closed = false;

  /**
   * @param lib the build of the library to test
   * @param timeout milliseconds of real time that one seed may take
   * @param file the module that the process runs
   */
  constructor(
    private readonly lib: string,
    private readonly timeout = 60_000,
    private readonly file = WORKER,
  ) {}

  /**
   * Runs a seed. A process that dies or does not answer is reported as a violation.
   *
   * @throws UsageError where the process cannot load the library
   */
  async run(options: RunOptions): Promise<SeedReport> {
    this.#child ??= await this.#start();
    const answer = this.#answer(this.#child);
    this.#child.send(options, () => {});
    const got = await answer;
    if ('message' in got) return got.message as SeedReport;
    await this.#kill();
    return failedReport(options.seed, 'the run of a seed ends', got.problem);
  }

  /** Ends the process. A run that has not ended is reported as one whose process died. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#kill();
  }

  async #start(): Promise<ChildProcess> {
    if (this.#closed) throw new Error('the worker is closed');
    const child = fork(this.file, [this.lib], {
      // A debugger attaches to one process: the command's.
      execArgv: [
        ...process.execArgv.filter((argument) => !argument.startsWith('--inspect')),
        // Megabytes: most objects of a seed live shortly.
        '--max-semi-space-size=64',
      ],
      // Output of the code under test must not mix with the figures on stdout.
      stdio: ['ignore', 2, 2, 'ipc'],
    });
    this.#child = child;
    child.on('error', () => {});
    const answer = await this.#answer(child);
    if ('message' in answer) return child;
    await this.#kill();
    throw new UsageError(`--lib ${this.lib} cannot be loaded: ${answer.problem}`);
  }

  #answer(child: ChildProcess): Promise<Answer> {
    return new Promise((resolve) => {
      const settle = (answer: Answer) => {
        clearTimeout(timer);
        child.off('message', onMessage).off('exit', onExit);
        resolve(answer);
      };
      const onMessage = (message: unknown) => settle({ message });
      const onExit = (code: number | null, signal: string | null) =>
        settle({ problem: `its process ended with ${signal ?? `exit code ${code}`}` });
      const late = { problem: `its process did not answer within ${this.timeout / 1000} s` };
      const timer = setTimeout(settle, this.timeout, late);
      child.once('message', onMessage).once('exit', onExit);
      // It may have ended since its last answer.
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
