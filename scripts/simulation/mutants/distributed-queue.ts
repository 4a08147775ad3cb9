import type { Mutant } from './mutant.js';

const CONSUMER = 'lib/coordination/recipes/consumer-loop.ts';
const ITEM_LOCK = 'lib/coordination/recipes/internals/item-lock.ts';

/** Bugs in the queue with a lock for each item. */
export const DISTRIBUTED_QUEUE_MUTANTS: readonly Mutant[] = [
  {
    name: 'queue-item-deleted-before-its-handler',
    bug: 'A consumer deletes an item before it calls the handler, so that a crash loses the item (Curator without a lockPath).',
    workload: 'queue',
    edits: [
      {
        file: CONSUMER,
        search: 'const outcome = await this.callHandler(stored.values, context);',
        replace:
          'await lock.deleteItem(node.stat); const outcome = await this.callHandler(stored.values, context);',
      },
    ],
  },
  {
    name: 'queue-item-unlocked-before-its-deletion',
    bug: 'A consumer releases the lock of an item before the item is deleted, so that another one handles it again.',
    workload: 'queue',
    edits: [
      {
        file: CONSUMER,
        search: '() => lock.deleteItem(node.stat);',
        replace:
          'async () => void lock.release().then(() => lock.deleteItem(node.stat)).catch(() => {});',
      },
    ],
  },
  {
    name: 'queue-items-deleted-after-lost-lock',
    bug: 'A consumer that lost the lock between two items of a put deletes both, because the session is alive.',
    workload: 'queue',
    edits: [
      {
        file: CONSUMER,
        search: "if (!context.held) return 'interrupted';\n      try",
        replace: "if (!context.held) return 'handled';\n      try",
      },
    ],
  },
  {
    name: 'queue-put-repeated-after-lost-reply',
    bug: 'A producer repeats a put whose reply was lost, so that the item is in the queue twice.',
    workload: 'queue',
    edits: [
      {
        file: 'lib/coordination/recipes/internals/queue-put.ts',
        search: 'return await limit.reply(this.find(error));',
        replace: 'continue;',
      },
    ],
  },
  {
    name: 'queue-lock-of-another-consumer-claimed',
    bug: 'After a lost reply to the create of a lock, a consumer takes the lock of another consumer for its own.',
    workload: 'queue',
    edits: [
      {
        file: ITEM_LOCK,
        search: 'if (!uncertain || !(await hasData(client, session, path, id))) return undefined;',
        replace: 'if (!uncertain) return undefined;',
      },
    ],
  },
  {
    name: 'queue-item-read-before-its-lock',
    bug: 'A consumer reads an item before it has the lock, and handles an item that another consumer has handled and deleted.',
    workload: 'queue',
    edits: [
      {
        file: ITEM_LOCK,
        search: 'const created = session.create(',
        replace:
          'const reading = session.get(paths.item);\n        const created = session.create(',
      },
      {
        file: ITEM_LOCK,
        search: 'const reading = session.getAfter(paths.item, path);',
        replace: '',
      },
    ],
  },
];
