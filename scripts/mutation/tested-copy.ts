import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { trackedFiles } from './tracked-files.js';

/** The parts of `npm test` that test the library's source. The others test what is built from it. */
const PROJECTS = ['unit', 'unit-isolated', 'integration', 'keeper', 'sockets'];
/** With some changes a test never ends. */
const MAX_SLOWER = 4;

/** A copy of the project in which the tests run with one changed file at a time. */
export class TestedCopy {
  readonly #directory: string;
  #limit = Infinity;

  /**
   * @param root the directory of the project
   * @param signal ends the tests that run
   */
  constructor(
    private readonly root: string,
    private readonly signal: AbortSignal,
  ) {
    // Below the root, so that its files find node_modules.
    this.#directory = join(root, '.mutants', `tests-${process.pid}`);
    for (const file of trackedFiles(root)) {
      cpSync(join(root, file), join(this.#directory, file), { recursive: true });
    }
    for (const built of ['dist', 'node_modules']) {
      symlinkSync(join(root, built), join(this.#directory, built));
    }
  }

  /** Runs the unmodified tests. Returns whether they pass, and limits those with a change to a multiple of their time. */
  async passUnmodified(): Promise<boolean> {
    const started = performance.now();
    const passed = await this.#pass();
    this.#limit = MAX_SLOWER * (performance.now() - started);
    return passed;
  }

  /** Returns whether a test fails, or the tests do not end, with a changed file. */
  async fails(file: string, changed: string, original: string): Promise<boolean> {
    writeFileSync(join(this.#directory, file), changed);
    try {
      // The tests of the same folder find most changes, in a fraction of the time. Those of the recipes test the kernel.
      const folder = file.split('/')[1]!.replace('kernel', 'recipes');
      return !((await this.#pass(`/${folder}/`)) && (await this.#pass()));
    } finally {
      writeFileSync(join(this.#directory, file), original);
    }
  }

  /** @param filter a part of the paths of the test files to run; default: all */
  async #pass(filter = ''): Promise<boolean> {
    const args = ['run', filter, '--passWithNoTests', '--bail', '1'];
    args.push('--exclude', '**/*.slow.test.ts');
    args.push(...PROJECTS.flatMap((name) => ['--project', name]));
    const vitest = join(this.root, 'node_modules', 'vitest', 'vitest.mjs');
    // A process group of its own, because the runner has child processes.
    const options = { cwd: this.#directory, detached: true, stdio: 'ignore' } as const;
    const child = spawn(process.execPath, [vitest, ...args], options);
    const end = () => process.kill(-child.pid!, 'SIGKILL');
    const timer = this.#limit === Infinity ? undefined : setTimeout(end, this.#limit);
    this.signal.addEventListener('abort', end);
    const [code] = (await once(child, 'exit')) as [number | null];
    clearTimeout(timer);
    this.signal.removeEventListener('abort', end);
    return code === 0;
  }

  remove(): void {
    rmSync(this.#directory, { recursive: true, force: true });
  }
}
