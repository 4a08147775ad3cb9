import type { Mutant } from './mutant.js';

/** Bugs of single recipes. */
export const RECIPE_MUTANTS: readonly Mutant[] = [
  {
    name: 'reader-joins-before-waiting-writer',
    bug: 'A reader shares the node of other readers although a writer waits behind it, so that writers starve.',
    edits: [
      {
        file: 'lib/kernel/handover.ts',
        search: 'if (this.spec.shared || this.budgetSpent) {',
        replace: `if (this.spec.shared) return undefined;
    if (this.budgetSpent) {`,
      },
    ],
  },
  {
    name: 'first-reader-frees-all',
    bug: 'The first reader that leaves deletes the node that other readers share.',
    edits: [
      {
        file: 'lib/kernel/ownership.ts',
        search: 'if (this.ended || this.grants.size > 0) return this.ended ?? RESOLVED;',
        replace: 'if (this.ended) return this.ended;\n    void this.end();',
      },
    ],
  },
  {
    name: 'writer-ignores-readers',
    bug: 'A writer waits only for the writers ahead of it.',
    edits: [
      {
        file: 'lib/recipes/read-write-lock.ts',
        search: '{ marker: WRITE, markers: MARKERS, nodeAhead: lastBefore }',
        replace: '{ marker: WRITE, markers: MARKERS, nodeAhead: lastWriterBefore }',
      },
    ],
  },
  {
    name: 'downgrade-queues-behind-writers',
    bug: 'The read node of a downgrade gets a new sequence number, so it is behind a waiting writer (CURATOR-621).',
    edits: [
      {
        file: 'lib/recipes/read-write-lock.ts',
        search: 'suffix: READ + writer.slice(writer.lastIndexOf(WRITE) + WRITE.length),',
        replace: 'suffix: READ,',
      },
      {
        file: 'lib/recipes/read-write-lock.ts',
        search: "mode: 'ephemeral',",
        replace: "mode: 'ephemeral-sequential',",
      },
    ],
  },
  {
    name: 'grants-one-permit-too-many',
    bug: 'A semaphore grants one permit more than it has.',
    edits: [
      {
        file: 'lib/recipes/permit-acquisition.ts',
        search: 'queue.length <= limit.value',
        replace: 'queue.length <= limit.value + 1',
      },
    ],
  },
  {
    name: 'ignores-raised-permits',
    bug: 'A waiter does not notice that the number of permits was raised (CURATOR-75).',
    edits: [
      {
        file: 'lib/recipes/permit-acquisition.ts',
        search: '[listing.watch.fired, ...(limit.watch ? [limit.watch.fired] : [])]',
        replace: '[listing.watch.fired]',
      },
    ],
  },
  {
    name: 'requests-permits-concurrently',
    bug: 'Processes create the nodes of their permits at the same time, and each blocks the others with a part of its permits.',
    edits: [
      {
        file: 'lib/recipes/permit-acquisition.ts',
        search: 'return await this.acquireInTurn(mutex, request);',
        replace: `mutex.release();
        return await this.acquireInTurn(mutex, request);`,
      },
    ],
  },
  {
    name: 'forgets-nodes-of-failed-wait-for-permits',
    bug: 'A wait for permits that fails leaves its lease nodes in the queue.',
    edits: [
      {
        file: 'lib/recipes/permit-acquisition.ts',
        search: 'if (!granted) for (const node of nodes) void session.guaranteedDelete(node);',
        replace: '',
      },
    ],
  },
  {
    name: 'multi-lock-restarts-wait-for-each-lock',
    bug: 'A multi-lock waits up to the full `wait` for each of its locks.',
    edits: [
      {
        file: 'lib/recipes/multi-lock.ts',
        search: 'const wait = options.wait && waitUntil(deadline);',
        replace: 'const wait = options.wait ?? Infinity;',
      },
    ],
  },
  {
    name: 'multi-lock-keeps-part',
    bug: 'A multi-lock that fails keeps the locks that it has already acquired.',
    edits: [
      {
        file: 'lib/recipes/multi-lock.ts',
        search: 'releaseAll([...taken.values()], error)',
        replace: 'releaseAll([], error)',
      },
    ],
  },
  {
    name: 'multi-lock-returns-lost-part',
    bug: 'A multi-lock is granted although its first lock was lost during the wait for the last (etcd issue 11456).',
    edits: [
      {
        file: 'lib/recipes/multi-lock.ts',
        search: 'if (leases.every((lease) => lease.held)) {',
        replace: 'if (leases.length > 0) {',
      },
    ],
  },
  {
    name: 'multi-lock-hands-over',
    bug: 'A lock of a multi-lock is handed over with a token that is lower than the token of the multi-lock.',
    edits: [
      {
        file: 'lib/recipes/multi-lock.ts',
        search: 'grantOf(lease)?.ownership.endAfterGrants();',
        replace: '',
      },
    ],
  },
  {
    name: 'multi-lock-in-given-order',
    bug: 'Multi-locks acquire their locks in the order in which the caller lists them, so that two multi-locks deadlock.',
    edits: [
      {
        file: 'lib/recipes/multi-lock.ts',
        search: 'Buffer.compare(Buffer.from(a.path), Buffer.from(b.path)),',
        replace: 'Number(a === b) - Number(b === a),',
      },
    ],
  },
  {
    name: 'term-ends-after-next-began',
    bug: 'A leader that resigns deletes its node first and ends its term later (CURATOR-653, CURATOR-645).',
    edits: [
      {
        file: 'lib/kernel/term.ts',
        search: 'return this.lease.held && !this.ending.signal.aborted;',
        replace: 'return !this.ending.signal.aborted;',
      },
      {
        file: 'lib/kernel/term.ts',
        search: `this.end('given up');
    return this.lease.release();`,
        replace: "return this.lease.release().then(() => this.end('given up'));",
      },
    ],
  },
  {
    name: 'leads-after-pause',
    bug: 'After a pause, the first code still sees an active term, because the client does not read the clock of the session.',
    edits: [
      {
        file: 'lib/kernel/term.ts',
        search: 'return this.lease.held && !this.ending.signal.aborted;',
        replace: 'return !this.ending.signal.aborted;',
      },
    ],
  },
  {
    name: 'latch-does-not-rejoin',
    bug: 'A latch that lost its leadership because its session expired never joins the election again (CURATOR-724).',
    edits: [
      {
        file: 'lib/recipes/leader-latch.ts',
        search: 'return untilAborted(signal);',
        replace: `const isLoss = () => (signal.reason as Error).cause !== undefined;
    return untilAborted(signal).then(() => (isLoss() ? new Promise<void>(() => {}) : undefined));`,
      },
    ],
  },
  {
    name: 'selector-deletes-node-early',
    bug: 'A selector deletes its node while takeLeadership is still running, so that two leaders work at the same time.',
    edits: [
      {
        file: 'lib/recipes/leader-selector.ts',
        search: 'await runLeading(term, async () => this.takeLeadership(term));',
        replace: `const ended = new Promise<void>((resolve) => {
        term.signal.addEventListener('abort', () => resolve(), { once: true });
      });
      await Promise.race([runLeading(term, async () => this.takeLeadership(term)), ended]);`,
      },
    ],
  },
];
