import type { Mutant } from './mutant.js';

const READER = 'lib/coordination/recipes/internals/cache-reader.ts';

/** Bugs in the cache. */
export const CACHE_MUTANTS: readonly Mutant[] = [
  {
    name: 'cache-not-read-again-after-a-reconnection',
    bug: 'A cache sets its watches again after a reconnection, but lacks the changes of the time without a connection.',
    workload: 'cache',
    edits: [
      {
        file: READER,
        search:
          'for (const { path } of this.copy.entries()) this.invalidate(path, DATA | CHILDREN);',
        replace: '',
      },
    ],
  },
  {
    name: 'cache-read-before-its-watch',
    bug: 'A cache reads the znodes before it sets the recursive watch, so that it lacks the changes in between.',
    workload: 'cache',
    edits: [
      {
        file: READER,
        search: 'if (await this.watchRoot(session)) this.session = session;',
        replace:
          'this.session = session; this.readDirty(); if (!(await this.watchRoot(session))) this.session = undefined;',
      },
    ],
  },
  {
    name: 'cache-event-during-a-read-ignored',
    bug: 'A change that is reported while the znode is being read does not cause another read.',
    workload: 'cache',
    edits: [
      {
        file: READER,
        search: 'const map = this.reading.has(path) ? this.reading : this.dirty;',
        replace: 'if (this.reading.has(path)) return; const map = this.dirty;',
      },
    ],
  },
  {
    name: 'cache-recreated-znode-taken-for-the-old-one',
    bug: 'A znode that was deleted and created again is taken for a changed one, so that the cache lacks its children.',
    workload: 'cache',
    edits: [
      {
        file: 'lib/coordination/recipes/internals/cache-copy.ts',
        search: 'if (this.nodes.get(path)?.stat.czxid !== stat.czxid) this.delete(path);',
        replace: '',
      },
    ],
  },
  {
    name: 'cache-watch-lost-to-a-recursive-watch',
    bug: 'A recursive watch replaces a one-time watch on the children of its znode, and nobody sets that one again.',
    workload: 'cache',
    edits: [
      {
        file: 'lib/client/watch-registry.ts',
        search: "if (recursive) this.#fireOnce('children', path, 'session');",
        replace: '',
      },
    ],
  },
];
