import type { Mutant } from './mutant.js';

/** Bugs in the spreading of partitions over the members of a group. */
export const PARTITION_MUTANTS: readonly Mutant[] = [
  {
    name: 'partition-released-before-its-handler-settles',
    bug: 'A member releases the lock of a partition as soon as the signal aborts, while the handler is still running.',
    workload: 'partitions',
    edits: [
      {
        file: 'lib/coordination/recipes/partition-runner.ts',
        search: 'await this.handle(partition, ended);',
        replace: 'void this.handle(partition, ended);',
      },
    ],
  },
  {
    name: 'partition-without-a-common-lock',
    bug: 'Each member has locks of its own, so that a partition has two owners while an assignment changes.',
    workload: 'partitions',
    edits: [
      {
        file: 'lib/coordination/recipes/partitioner.ts',
        search: 'const path = `${this.path}/partitions/${index}`;',
        replace: 'const path = `${this.path}/partitions/${index}-${this.id}`;',
      },
    ],
  },
  {
    name: 'partition-kept-after-a-new-assignment',
    bug: 'A member keeps a partition that was assigned to another member, so that the new member never gets it.',
    workload: 'partitions',
    edits: [
      {
        file: 'lib/coordination/recipes/partitioner.ts',
        search: 'if (!this.assigned.has(index)) runner.stop(why);',
        replace: 'if (indexes.length === 0) runner.stop(why);',
      },
    ],
  },
  {
    name: 'partitions-of-a-lost-member-stay-unassigned',
    bug: 'Only a new member causes an assignment, so that nobody gets the partitions of a member that is gone.',
    workload: 'partitions',
    edits: [
      {
        file: 'lib/coordination/recipes/partition-assignment.ts',
        search: "assignment?.members.join('/') === members.join('/')",
        replace: 'members.every((member) => assignment?.members.includes(member))',
      },
    ],
  },
];
