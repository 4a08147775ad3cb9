import { findViolation } from '../explore/mutants.js';
import { SCENARIOS } from '../explore/scenarios.js';
import { buildMutant, Compiler, removeBuild } from '../simulation/mutants/build.js';
import type { Mutant } from '../simulation/mutants/mutant.js';
import { Baseline, searchMutant } from '../simulation/mutants.js';
import type { Mutation } from './operators.js';
import { TestedCopy } from './tested-copy.js';

/** What has found a change. */
export type Finder = 'tests' | 'explore' | 'seeds';

/** Minutes of seeds for each change: about 100 seeds on two cores. */
const MINUTES_OF_SEEDS = 2;

/** Searches for what finds a change, the quickest first. */
export class MutationSearch {
  readonly #compiler: Compiler;
  readonly #copy: TestedCopy;
  readonly #baseline = new Baseline();

  /**
   * @param root the directory of the project, whose build must be up to date
   * @param workers the number of processes that explore or run seeds
   */
  constructor(
    private readonly root: string,
    private readonly workers: number,
    private readonly signal: AbortSignal,
  ) {
    this.#compiler = new Compiler(root);
    this.#copy = new TestedCopy(root, signal);
  }

  /** @throws Error if the tests fail without a change */
  async checkUnmodified(): Promise<void> {
    if (!(await this.#copy.passUnmodified()) && !this.signal.aborted) {
      throw new Error('the tests of the unmodified library fail');
    }
  }

  /** Resolves with undefined if nothing finds the change. */
  async find({ file, mutated }: Mutation): Promise<Finder | undefined> {
    const original = this.#compiler.read(file);
    if (await this.#copy.fails(file, mutated, original)) return 'tests';
    const mutant: Mutant = {
      name: 'mutation',
      bug: 'a generated change',
      edits: [{ file, search: original, replace: mutated }],
    };
    const lib = buildMutant(this.root, this.#compiler, mutant);
    try {
      const scenarios = Object.keys(SCENARIOS);
      if (await findViolation(lib, scenarios, this.workers, this.signal)) return 'explore';
    } finally {
      removeBuild(lib);
    }
    const options = { workers: this.workers, from: 1, minutes: MINUTES_OF_SEEDS };
    const { finding } = await searchMutant(
      mutant,
      this.#compiler,
      this.#baseline,
      options,
      this.signal,
    );
    return finding && 'seeds';
  }

  end(): void {
    this.#copy.remove();
  }
}
