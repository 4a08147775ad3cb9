import type { Mutant } from './mutant.js';

/** Bugs in the transactions of leases. */
export const GUARDED_WRITE_MUTANTS: readonly Mutant[] = [
  {
    name: 'transaction-without-a-check-of-the-lease',
    bug: 'A transaction of a lease does not check the znode of the lease. Curator has no such check (CURATOR-689).',
    workload: 'guarded-writes',
    edits: [
      {
        file: 'lib/kernel/grant.ts',
        search: 'const nodes = grants.flatMap(({ ownership }) => ownership.position.nodes);',
        replace: 'const nodes: string[] = [];',
      },
    ],
  },
  {
    name: 'transaction-of-a-released-lease',
    bug: 'A transaction is sent although the lease was released, while the process has handed the lock over.',
    workload: 'guarded-writes',
    edits: [
      {
        file: 'lib/kernel/grant.ts',
        search: 'if (!lease.held) throw notHeld(lease);',
        replace: '',
      },
      {
        file: 'lib/kernel/grant.ts',
        search: 'if (this.transactions > 0) this.ownership.endAfterGrants();',
        replace: '',
      },
    ],
  },
  {
    name: 'handover-behind-a-pending-transaction',
    bug: 'The lock is handed over behind its znode while a transaction of the last holder has no reply.',
    workload: 'guarded-writes',
    edits: [
      {
        file: 'lib/kernel/grant.ts',
        search: 'if (this.transactions > 0) this.ownership.endAfterGrants();',
        replace: '',
      },
    ],
  },
];
