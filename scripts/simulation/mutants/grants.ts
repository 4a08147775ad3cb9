import type { Mutant } from './mutant.js';

/** Bugs in how a node's grants begin, are handed over and end. */
export const GRANT_MUTANTS: readonly Mutant[] = [
  {
    name: 'hands-over-after-pause',
    bug: 'A handover and a grant of a lingering lock do not read the clock of the session, so the lease is lost from its beginning (rule 6, etcd 11456).',
    edits: [
      {
        file: 'lib/recipes/internals/tenure.ts',
        search: 'return this.staysOn && this.trusted;',
        replace: 'return this.staysOn;',
      },
    ],
  },
  {
    name: 'hands-over-without-bound',
    bug: 'A process hands the lock over among its own callers for as long as any of them waits (section 6).',
    edits: [
      {
        file: 'lib/recipes/internals/bound.ts',
        search: "if (this.grants >= MOST_GRANTS || now - this.since >= MOST_TIME) return 'others';",
        replace: '',
      },
    ],
  },
  {
    name: 'lingers-despite-arrivals',
    bug: 'A lingering lock is not given up when another process queues up for it (section 6).',
    edits: [
      {
        file: 'lib/recipes/internals/stay.ts',
        search: 'if (this.active && company.others) void this.tenure.giveBack();',
        replace: '',
      },
    ],
  },
  {
    name: 'hands-over-after-revocation',
    bug: 'A lock that was asked back is handed over and lingers (rule 12).',
    edits: [
      {
        file: 'lib/recipes/internals/tenure.ts',
        search: 'return !this.givenBack && !this.revoked && !this.last;',
        replace: 'return !this.givenBack && !this.last;',
      },
    ],
  },
  {
    name: 'repeats-token-on-handover',
    bug: 'Grants that are handed over have the same fencing token (rule 7).',
    edits: [
      {
        file: 'lib/recipes/internals/tenure.ts',
        search: 'fencingToken(this.base, this.granted++)',
        replace: 'fencingToken(this.base)',
      },
    ],
  },
  {
    name: 'ignores-deletion-of-own-node',
    bug: 'A holder does not notice that somebody deleted its node (rule 2).',
    edits: [
      {
        file: 'lib/recipes/internals/node-watch.ts',
        search: "if (this.state === 'watching') this.events.gone(node);",
        replace: '',
      },
    ],
  },
  {
    name: 'late-release-frees-next-holder',
    bug: 'The release of a lease that was lost by `holdAtMost` deletes the node of the next holder (ShedLock).',
    edits: [
      {
        file: 'lib/recipes/internals/grant.ts',
        search: `if (this.state !== 'held') return;
    this.end('released');`,
        replace: `if (this.state !== 'held') return void this.tenure.giveBack();
    this.end('released');`,
      },
    ],
  },
  {
    name: 'inner-release-frees-lock',
    bug: 'The end of a re-entry releases the lock of the outer call.',
    edits: [
      {
        file: 'lib/recipes/internals/grant.ts',
        search: 'if (--this.leases > 0) return AT_ONCE;',
        replace: '',
      },
    ],
  },
  {
    name: 're-enters-lost-lease',
    bug: 'A call chain re-enters a lock that it has lost (rule 5, CURATOR-206).',
    edits: [
      {
        file: 'lib/recipes/internals/call-chain.ts',
        search: 'if (grant?.held === false && grant.lost) throw grant.lost;',
        replace: '',
      },
    ],
  },
  {
    name: 'ignores-hold-at-least',
    bug: 'A lock is free before its `holdAtLeast` is over.',
    edits: [
      {
        file: 'lib/recipes/internals/grant.ts',
        search: 'if (this.keepUntil > 0 && keepFor > 0) {',
        replace: 'if (keepFor === Infinity) {',
      },
    ],
  },
  {
    name: 'ignores-hold-at-most',
    bug: 'A lease is not lost when its `holdAtMost` is over.',
    edits: [
      {
        file: 'lib/recipes/internals/grant.ts',
        search: 'Math.min(holdAtMost, LONGEST_TIMER),',
        replace: 'LONGEST_TIMER,',
      },
    ],
  },
];
