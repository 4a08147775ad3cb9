import { setImmediate as nextTurn } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { describe, expect, it, vi } from 'vitest';
import { Compiler } from '../../scripts/simulation/mutants/build.js';
import { MUTANTS } from '../../scripts/simulation/mutants/index.js';
import { applyEdit, mutatedSources } from '../../scripts/simulation/mutants/mutant.js';
import { searchViolation } from '../../scripts/simulation/mutants/search.js';
import { failedReport } from '../../scripts/simulation/seed-report.js';

const compiler = new Compiler(fileURLToPath(new URL('../../', import.meta.url)));

/** The code of the files without a bug. */
const originals = new Map<string, string>();

describe('mutants', () => {
  it('have unique names and a sentence that describes the bug', () => {
    expect(MUTANTS.length).toBeGreaterThanOrEqual(24);
    expect(new Set(MUTANTS.map(({ name }) => name)).size).toBe(MUTANTS.length);
    for (const { name, bug } of MUTANTS) {
      expect(name).toMatch(/^[a-z]+(-[a-z]+)+$/);
      expect(bug).toMatch(/^\S.* .*\.$/);
    }
  });

  it.each(MUTANTS)('$name can be planted into the current source', (mutant) => {
    for (const [file, source] of mutatedSources(mutant, compiler.read)) {
      if (!originals.has(file)) originals.set(file, compiler.compile(file, compiler.read(file)));
      expect(compiler.compile(file, source)).not.toBe(originals.get(file));
    }
  });

  it('are rejected if the search string is not unique or the result has a syntax error', () => {
    const edit = { file: 'lib/a.ts', search: 'x()', replace: 'y()' };
    expect(applyEdit('a; x(); b', edit, 'm')).toBe('a; y(); b');
    expect(() => applyEdit('a; b', edit, 'm')).toThrow(/mutant m: .* not found in lib\/a\.ts/);
    expect(() => applyEdit('x(); x()', edit, 'm')).toThrow(/found 2 times in lib\/a\.ts/);
    expect(() => compiler.compile('lib/a.ts', 'const = 1;')).toThrow(/^lib\/a\.ts: /);
  });
});

/** Returns a function that starts fake runners, and the seeds that they have run. */
function fakeRunners(fails: (seed: number) => boolean) {
  const run: number[] = [];
  const closed = vi.fn();
  const start = () => ({
    async run({ seed }: { seed: number }) {
      run.push(seed);
      await nextTurn();
      const report = failedReport(seed, 'a property', 'a message');
      return fails(seed) ? report : { ...report, violations: [] };
    },
    async close() {
      closed();
    },
  });
  return { start, run, closed };
}

describe('searchViolation', () => {
  const signal = new AbortController().signal;
  const common = {
    run: { workload: 'locks' },
    workers: 2,
    from: 10,
    limit: 5_000,
    signal,
    confirm: async () => true,
  } as const;

  it('resolves with the first violation and closes the runners', async () => {
    const { start, closed } = fakeRunners((seed) => seed === 15);
    const { finding, seconds } = await searchViolation({ ...common, start });
    expect(finding).toEqual({ seed: 15, property: 'a property', message: 'a message' });
    expect(seconds).toBeLessThan(5);
    expect(closed).toHaveBeenCalled();
  });

  it('tries the next seed if a violation is not confirmed', async () => {
    const { start, run } = fakeRunners((seed) => seed === 12 || seed === 20);
    const confirm = async ({ seed }: { seed: number }) => seed !== 12;
    const { finding } = await searchViolation({ ...common, start, confirm });
    expect(finding?.seed).toBe(20);
    expect(new Set(run).size).toBe(run.length);
  });

  it('ends at its time limit', async () => {
    const { start, closed } = fakeRunners(() => false);
    const { finding, seconds } = await searchViolation({ ...common, start, limit: 50 });
    expect(finding).toBeUndefined();
    expect(seconds).toBeGreaterThan(0.04);
    expect(closed).toHaveBeenCalled();
  });
});
