import type { Mutant } from './mutant.js';

const WRITER = 'lib/coordination/recipes/internals/counter-writer.ts';

/** Bugs in the counter. */
export const COUNTER_MUTANTS: readonly Mutant[] = [
  {
    name: 'counter-write-without-a-version',
    bug: 'A write does not depend on the version of the value that was read, so that it overwrites the change of another process.',
    workload: 'counter',
    edits: [
      {
        file: WRITER,
        search: 'await client.set(path, encode(value), base.version)',
        replace: 'await client.set(path, encode(value))',
      },
    ],
  },
  {
    name: 'counter-change-repeated-after-lost-reply',
    bug: 'A write whose reply was lost is taken for one that was not applied, so that the change is applied twice.',
    workload: 'counter',
    edits: [
      {
        file: WRITER,
        search: 'batch.unconfirmed ??= new UnconfirmedWrite(path, base, value, session, error);',
        replace: '',
      },
    ],
  },
  {
    name: 'counter-lost-reply-reported-as-not-applied',
    bug: 'A change whose reply was lost is reported as one that was not applied.',
    workload: 'counter',
    edits: [
      {
        file: WRITER,
        search: 'const failure = batch.unconfirmed?.error ?? notApplied(error);',
        replace: 'const failure = notApplied(error);',
      },
    ],
  },
  {
    name: 'counter-change-repeated-in-the-next-session',
    bug: 'A change is repeated in a new session although the version shows that the last write may have been applied.',
    workload: 'counter',
    edits: [
      {
        file: 'lib/coordination/recipes/internals/unconfirmed-write.ts',
        search: 'if (now.version === base.version + 1 && now.value !== value)',
        replace: 'if (now.version > base.version)',
      },
    ],
  },
  {
    name: 'counter-compare-and-set-without-a-sync',
    bug: 'A compareAndSet with another value is refused by the value of a server that lags behind (Curator).',
    workload: 'counter',
    edits: [
      {
        file: WRITER,
        search: 'if (batch.synced) {',
        replace: 'if (!cached) {',
      },
    ],
  },
];
