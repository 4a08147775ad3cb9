import { fileURLToPath } from 'node:url';
import { messageOf } from '../message-of.mjs';
import { WorkerProcess } from '../worker-process.js';
import { UsageError } from './options.js';
import type { Runner } from './run-seeds.js';
import { failedReport, type SeedReport } from './seed-report.js';
import type { RunOptions } from './types.js';

const WORKER = fileURLToPath(new URL('./worker.js', import.meta.url));
/** Milliseconds of real time that one seed may take. On a busy machine, a seed took 60 s. */
const SEED_LIMIT = 180_000;

/** Runs seeds in a worker process. */
export class SeedWorker implements Runner {
  readonly #process: WorkerProcess<RunOptions, SeedReport>;

  /**
   * @param lib the build of the library to test
   * @param limit the milliseconds of real time that one seed may take
   * @param file the module that the worker process runs
   */
  constructor(
    private readonly lib: string,
    private readonly limit = SEED_LIMIT,
    file = WORKER,
  ) {
    this.#process = new WorkerProcess(file, lib);
  }

  /**
   * Runs a seed. A process that ends or does not reply is reported as a violation.
   *
   * @throws UsageError if the process cannot load the library
   */
  async run(options: RunOptions): Promise<SeedReport> {
    try {
      await this.#process.start();
    } catch (error) {
      throw new UsageError(`--lib ${this.lib} cannot be loaded: ${messageOf(error)}`);
    }
    try {
      return await this.#process.request(options, this.limit);
    } catch (error) {
      return failedReport(options.seed, 'the run of a seed ends', messageOf(error));
    }
  }

  close(): Promise<void> {
    return this.#process.close();
  }
}
