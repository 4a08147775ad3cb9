import type { Mutant } from './mutant.js';

/** Bugs of the queue of a lock: creating a node, waiting, and leaving the queue. */
export const QUEUE_MUTANTS: readonly Mutant[] = [
  {
    name: 'grants-without-own-node',
    bug: 'A waiter whose own node was deleted acquires the lock, because no node is ahead of it (go-zookeeper).',
    edits: [
      {
        file: 'lib/kernel/queue.ts',
        search:
          "if (!children.includes(own.name)) throw new NodeError('NO_NODE', pathOf(own), -101, 'children');",
        replace: '',
      },
    ],
  },
  {
    name: 'retries-create-across-sessions',
    bug: 'A create whose session expired is repeated in the next session, and its node is never used or deleted (CURATOR-604, CURATOR-696).',
    edits: [
      {
        file: 'lib/kernel/own-node.ts',
        search: 'first ?? session.create(path, data, { mode });',
        replace: 'first ?? (await client.session({ signal })).create(path, data, { mode });',
      },
      {
        file: 'lib/kernel/own-node.ts',
        search: 'await assertSameSession(client, session, signal);',
        replace: 'if ((await client.session({ signal })) !== session) maybeCreated = false;',
      },
    ],
  },
  {
    name: 'creates-again-without-search',
    bug: 'A create whose reply was lost is repeated without a search for the node that it created, so an orphan node blocks the queue (CURATOR-45, CURATOR-79).',
    edits: [
      {
        file: 'lib/kernel/own-node.ts',
        search: 'const found = maybeCreated ? await find() : undefined;',
        replace: 'const found = undefined;',
      },
    ],
  },
  {
    name: 'forgets-node-of-lost-create',
    bug: 'A wait that ends before the reply to its create leaves the node in the queue until the session ends (CURATOR-18, CURATOR-190).',
    edits: [
      {
        file: 'lib/kernel/own-node.ts',
        search: 'if (maybeCreated) undo?.();',
        replace: '',
      },
    ],
  },
  {
    name: 'forgets-node-of-cancelled-wait',
    bug: 'A wait that was cancelled or timed out leaves its node in the queue.',
    edits: [
      {
        file: 'lib/kernel/queue.ts',
        search: 'const deleted = session.guaranteedDelete(path);',
        replace:
          'const deleted = signal.aborted ? Promise.resolve() : session.guaranteedDelete(path);',
      },
    ],
  },
  {
    name: 'creates-parent-once',
    bug: 'A client that has created a parent node once does not create it again after the servers removed it (kazoo issue 563).',
    edits: [
      {
        file: 'lib/kernel/own-node.ts',
        search: 'await containers.ensure(signal);',
        replace: `const made = ((client as { made?: Set<string> }).made ??= new Set());
        if (made.has(parent)) throw new Error(parent + ' was deleted');
        made.add(parent);
        await containers.ensure(signal);`,
      },
    ],
  },
  {
    name: 'watches-without-reading',
    bug: 'A waiter watches its predecessor with exists(), so it misses a deletion between its listing and its watch (CURATOR-107).',
    edits: [
      {
        file: 'lib/kernel/queue.ts',
        search: 'const read = () => session.get(blocker.path, { watch: true });',
        replace: 'const read = () => session.exists(blocker.path, { watch: true });',
      },
    ],
  },
  {
    name: 'orders-queue-by-name',
    bug: 'Nodes are ordered by their names, which start with a random part, instead of by their sequence numbers.',
    edits: [
      {
        file: 'lib/kernel/node-names.ts',
        search:
          'if (node.sequence < own.sequence && !(last && last.sequence > node.sequence)) last = node;',
        replace: 'if (node.name < own.name && !(last && last.name > node.name)) last = node;',
      },
    ],
  },
  {
    name: 'takes-token-from-own-create',
    bug: 'The fencing token is taken from the listing that was sent with the create, instead of from the listing that proves the grant.',
    edits: [
      {
        file: 'lib/kernel/queue.ts',
        search: 'raisesPzxid(session) ? stat.pzxid :',
        replace: 'raisesPzxid(session) ? (created.listing ?? listing).stat.pzxid :',
      },
    ],
  },
  {
    name: 'takes-any-lock-as-free',
    bug: 'The first attempt to join the queue takes the lock without a look at the nodes ahead of its own.',
    edits: [
      {
        file: 'lib/kernel/queue.ts',
        search:
          'return children.length === 1 || spec.nodeAhead(queueOf(spec, children), own) === undefined;',
        replace: 'return true;',
      },
    ],
  },
  {
    name: 'forgets-first-create',
    bug: 'The create of the first attempt is forgotten if the lock was not free, so its node blocks the queue.',
    edits: [
      {
        file: 'lib/kernel/queue.ts',
        search: 'tries, firstAttempt };',
        replace: 'tries, firstAttempt: undefined };',
      },
    ],
  },
  {
    name: 'keeps-node-without-waiters',
    bug: 'A node that is granted after all its waiters have left is not deleted.',
    edits: [
      {
        file: 'lib/kernel/local-queue.ts',
        search:
          'for (const node of nodes.slice(used)) leavePlace(node, session.guaranteedDelete(node));',
        replace: '',
      },
    ],
  },
  {
    name: 'wait-ends-with-session',
    bug: 'A waiter whose session expires is rejected instead of queueing up again in the next session.',
    edits: [
      {
        file: 'lib/kernel/session-retry.ts',
        search: 'if (!(error instanceof SessionExpiredError)) await onError(error);',
        replace: 'await onError(error);',
      },
    ],
  },
  {
    name: 'wait-never-times-out',
    bug: 'The deadline of a wait is ignored.',
    edits: [
      {
        file: 'lib/kernel/waiter.ts',
        search: 'else if (wait !== Infinity) {',
        replace: 'else if (wait > MAX_TIMER && wait !== Infinity) {',
      },
    ],
  },
  {
    name: 'try-waits',
    bug: 'An acquire with `wait: 0` waits for a lock that another caller holds.',
    edits: [
      {
        file: 'lib/kernel/waiter.ts',
        search: 'if (this.request.wait === 0) this.reject(busy(this.request.subject, why));',
        replace: '',
      },
    ],
  },
  {
    name: 'cannot-cancel-while-disconnected',
    bug: 'A wait for the connection ignores the signal of its caller.',
    edits: [
      {
        file: 'lib/kernel/waiter.ts',
        search: '{ subject, wait: limit, signal },',
        replace: '{ subject, wait: limit, signal: undefined },',
      },
    ],
  },
  {
    name: 'token-from-pzxid-without-a-rise',
    bug: 'With ClickHouse Keeper, the fencing token starts from the pzxid of the listing, as with Apache ZooKeeper, so the tokens of two holders can be equal.',
    server: 'clickhouse-keeper',
    edits: [
      {
        file: 'lib/kernel/queue.ts',
        search: "return serverKind === 'zookeeper';",
        replace: 'return true;',
      },
    ],
  },
  {
    name: 'token-from-risen-pzxid',
    bug: 'With ClickHouse Keeper, the fencing token starts from the pzxid if it has risen since the first listing, although a create by a waiter may have raised it before the earlier holder listed.',
    server: 'clickhouse-keeper',
    edits: [
      {
        file: 'lib/kernel/queue.ts',
        search: 'raisesPzxid(session) ? stat.pzxid :',
        replace:
          'raisesPzxid(session) || stat.pzxid > (created.listing?.stat.pzxid ?? Infinity) ? stat.pzxid :',
      },
    ],
  },
  {
    name: 'token-of-free-lock-from-pzxid',
    bug: 'With ClickHouse Keeper, the fencing token of a lock that is free starts from the pzxid of the listing, although another holder may have listed and released between the create and the listing.',
    server: 'clickhouse-keeper',
    edits: [
      {
        file: 'lib/kernel/queue.ts',
        search: '|| !session.trusted || !raisesPzxid(session)) return false;',
        replace: '|| !session.trusted) return false;',
      },
    ],
  },
];
