import type { Mutant } from './mutant.js';

/** Bugs in how a process queues up by a node, waits, and leaves the queue. */
export const QUEUE_MUTANTS: readonly Mutant[] = [
  {
    name: 'grants-without-own-node',
    bug: 'A waiter whose own node is gone takes the absence of nodes before it for its turn (rule 2, go-zookeeper).',
    edits: [
      {
        file: 'lib/recipes/internals/queue.ts',
        search: 'if (!listing.children.includes(own.name)) return undefined;',
        replace: '',
      },
    ],
  },
  {
    name: 'retries-create-across-sessions',
    bug: 'A create whose session expired is repeated in the next session, and its node is never used or deleted (rule 1, CURATOR-604, CURATOR-696).',
    edits: [
      {
        file: 'lib/recipes/internals/enqueue.ts',
        search: 'const creating = session.create(',
        replace: 'const creating = (await client.session({ signal })).create(',
      },
      {
        file: 'lib/recipes/internals/enqueue.ts',
        search: `  try {
    await stillIn(client, session, signal);`,
        replace: `  try {
    if ((await client.session({ signal })) !== session) return undefined;`,
      },
    ],
  },
  {
    name: 'creates-again-without-search',
    bug: 'A create whose answer was lost is repeated without a search for the node that it made, so an orphan blocks the queue (rule 1, CURATOR-45, CURATOR-79).',
    edits: [
      {
        file: 'lib/recipes/internals/enqueue.ts',
        search: 'const name = await recover(client, session, parent, id, signal);',
        replace: 'const name = (await stillIn(client, session, signal)) as string | undefined;',
      },
    ],
  },
  {
    name: 'forgets-node-of-lost-create',
    bug: 'A wait that ends while the answer of its create is missing leaves the node to the session (rule 1, CURATOR-18, CURATOR-190).',
    edits: [
      {
        file: 'lib/recipes/internals/enqueue.ts',
        search: 'void discardLater(client, session, parent, id);',
        replace: '',
      },
    ],
  },
  {
    name: 'forgets-node-of-cancelled-wait',
    bug: 'A wait that was cancelled or timed out leaves its node in the queue (rule 3).',
    edits: [
      {
        file: 'lib/recipes/internals/queue.ts',
        search: 'await session.discard(path);',
        replace: 'if (!signal.aborted) await session.discard(path);',
      },
    ],
  },
  {
    name: 'creates-directory-once',
    bug: 'A client that has made a directory once does not make it again after the server removed it (rule 10, kazoo 563).',
    edits: [
      {
        file: 'lib/recipes/internals/enqueue.ts',
        search: 'await abortable(client.ensureContainers(parent), signal);',
        replace: `const made = ((client as { made?: Set<string> }).made ??= new Set());
        if (made.has(parent)) throw error;
        made.add(parent);
        await abortable(client.ensureContainers(parent), signal);`,
      },
    ],
  },
  {
    name: 'watches-without-reading',
    bug: 'A waiter watches its predecessor by exists, so it misses a deletion between its listing and its watch (section 4, CURATOR-107).',
    edits: [
      {
        file: 'lib/recipes/internals/queue.ts',
        search: '() => session.get(path, { watch: true }),',
        replace: '() => session.exists(path, { watch: true }),',
      },
    ],
  },
  {
    name: 'orders-queue-by-name',
    bug: 'Nodes are ordered by their whole names, whose first part is random, and not by their sequence numbers (section 4).',
    edits: [
      {
        file: 'lib/recipes/internals/node-names.ts',
        search:
          'if (node.sequence < own.sequence && !(last && last.sequence > node.sequence)) last = node;',
        replace: 'if (node.name < own.name && !(last && last.name > node.name)) last = node;',
      },
    ],
  },
  {
    name: 'takes-token-from-own-create',
    bug: 'The fencing token comes from the listing beside the own create, and not from the one that proves the grant (rule 7).',
    edits: [
      {
        file: 'lib/recipes/internals/queue.ts',
        search: 'pzxid: listing.stat.pzxid,',
        replace: 'pzxid: (created.listing ?? listing).stat.pzxid,',
      },
    ],
  },
  {
    name: 'wait-ends-with-session',
    bug: 'A waiter whose session expires is rejected instead of queueing up again in the next session (rule 5).',
    edits: [
      {
        file: 'lib/recipes/internals/session-retry.ts',
        search: 'if (signal.aborted || !(error instanceof SessionExpiredError)) throw error;',
        replace: 'throw error;',
      },
    ],
  },
  {
    name: 'wait-never-times-out',
    bug: 'The deadline of a wait is ignored.',
    edits: [
      {
        file: 'lib/recipes/internals/wait.ts',
        search: 'if (wait > 0 && wait !== Infinity) {',
        replace: 'if (wait > LONGEST_TIMER && wait !== Infinity) {',
      },
    ],
  },
  {
    name: 'try-waits',
    bug: 'An acquire with `wait: 0` waits for a lock that is taken.',
    edits: [
      {
        file: 'lib/recipes/internals/wait.ts',
        search: 'if (!this.patient) this.reject(busy(this.wanted));',
        replace: '',
      },
    ],
  },
  {
    name: 'cannot-cancel-while-disconnected',
    bug: 'A wait for the connection ignores the signal of its caller (rule 4).',
    edits: [
      {
        file: 'lib/recipes/lock.ts',
        search: 'await this.client.session({ signal: options.signal });',
        replace: 'await this.client.session();',
      },
    ],
  },
];
