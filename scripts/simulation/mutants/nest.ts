import type { Mutant } from './mutant.js';

/** Bugs in services and decorators. */
export const NEST_MUTANTS: readonly Mutant[] = [
  {
    name: 'decorator-releases-too-early',
    bug: '@DistributedLock releases the lock before the promise of the method has settled.',
    edits: [
      {
        file: 'lib/decorators/method-wrapper.ts',
        search: 'const value = await runInner(requirement, inner, guard, run);',
        replace: 'const value = runInner(requirement, inner, guard, run);',
      },
    ],
  },
  {
    name: 'leader-only-runs-without-leading',
    bug: '@LeaderOnly runs the method on every instance that has led before.',
    edits: [
      {
        file: 'lib/services/leader.service.ts',
        search: 'return term && new TermGuard(term);',
        replace: `const terms = ((this as { terms?: Map<string, Term> }).terms ??= new Map());
    if (term) terms.set(election, term);
    return terms.has(election) ? new TermGuard(terms.get(election)!) : undefined;`,
      },
    ],
  },
  {
    name: 'shutdown-does-not-wait-for-holders',
    bug: 'A shutdown closes the session while leases of LockService are still held.',
    edits: [
      {
        file: 'lib/services/lease-tracker.ts',
        search: 'if (this.leases.size > 0) {',
        replace: 'if (limit < 0) {',
      },
    ],
  },
];
