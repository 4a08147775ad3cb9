import type { Mutant } from './mutant.js';

const BARRIER = 'lib/coordination/recipes/distributed-double-barrier.ts';

/** Bugs in the double barrier. */
export const BARRIER_MUTANTS: readonly Mutant[] = [
  {
    name: 'barrier-opened-by-an-old-ready',
    bug: 'A znode `ready` that members left when they crashed lets the first member of a new round enter alone (Curator).',
    workload: 'barrier',
    edits: [
      {
        file: BARRIER,
        search: 'if (older !== undefined) return;\n          await',
        replace: 'if (stat) return;\n          await',
      },
    ],
  },
  {
    name: 'barrier-left-by-the-highest-at-once',
    bug: 'A member waits until one other member has left, and not until all have.',
    workload: 'barrier',
    edits: [
      {
        file: BARRIER,
        search: 'others = others.filter((name) => name !== watched && present.has(name));',
        replace: 'others = others.filter((name) => name !== watched && !present.has(name));',
      },
    ],
  },
  {
    name: 'barrier-member-of-a-former-session-counted',
    bug: 'After the end of its session, a process enters while its former znode still counts as another member.',
    workload: 'barrier',
    edits: [
      {
        file: BARRIER,
        search: 'for (const name of this.names) await this.untilDeleted(name, limit);',
        replace: '',
      },
    ],
  },
  {
    name: 'barrier-earlier-member-of-a-former-session-counted',
    bug: 'After the end of its session, a process waits only for the latest of its znodes; that of an earlier call still counts as another member.',
    workload: 'barrier',
    edits: [
      {
        file: BARRIER,
        search: 'void this.names.push(name);',
        replace: 'void (this.names = [name]);',
      },
    ],
  },
];
