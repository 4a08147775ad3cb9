import type { Mutant } from './mutant.js';

/** Bugs of the grants of a lock: their start, their handover and their end. */
const SUCCESSION = 'lib/kernel/succession.ts';

export const GRANT_MUTANTS: readonly Mutant[] = [
  {
    name: 'hands-over-after-pause',
    bug: 'A handover and a grant of a lingering lock do not read the clock of the session, so a caller may be granted a lease that is already lost (etcd issue 11456).',
    edits: [
      {
        file: 'lib/kernel/handover.ts',
        search: "if (ownership.final || !ownership.trusted) return 'closed';",
        replace: "if (ownership.final) return 'closed';",
      },
    ],
  },
  {
    name: 'hands-over-without-limit',
    bug: 'A process hands the lock over to its own callers for as long as one of them waits, although other processes wait too.',
    edits: [
      {
        file: 'lib/kernel/handover.ts',
        search:
          'return this.granted - granted >= MAX_GRANTS || performance.now() - since >= MAX_TIME;',
        replace: 'return false;',
      },
    ],
  },
  {
    name: 'lingers-despite-arrivals',
    bug: 'A lingering lock is not released when another process queues up for it.',
    edits: [
      {
        file: 'lib/kernel/handover.ts',
        search:
          "if (this.state === 'lingering' && this.contenders === 'present') void this.close();",
        replace: '',
      },
    ],
  },
  {
    name: 'hands-over-after-revocation',
    bug: 'A lock that was revoked is handed over and lingers.',
    edits: [
      {
        file: 'lib/kernel/ownership.ts',
        search: `this.final = true;
    const reason = new LockRevokedError`,
        replace: 'const reason = new LockRevokedError',
      },
    ],
  },
  {
    name: 'repeats-token-on-handover',
    bug: 'Grants that are handed over have the same fencing token.',
    edits: [
      {
        file: 'lib/kernel/ownership.ts',
        search: 'const nth = shared ? this.tokens : this.tokens++;',
        replace: 'const nth = 0;',
      },
    ],
  },
  {
    name: 'ignores-deletion-of-own-node',
    bug: 'A holder does not notice that another client deleted its node.',
    edits: [
      {
        file: 'lib/kernel/node-watch.ts',
        search: 'if (!this.stopped) this.events.deleted(node);',
        replace: '',
      },
    ],
  },
  {
    name: 'late-release-frees-next-holder',
    bug: 'The release of a lease that was lost by `holdAtMost` deletes the node of the next holder (ShedLock).',
    edits: [
      {
        file: 'lib/kernel/grant.ts',
        search: `if (this.state !== 'held') return;
    this.end('released');`,
        replace: `if (this.state !== 'held') return void this.ownership.end();
    this.end('released');`,
      },
    ],
  },
  {
    name: 'inner-release-frees-lock',
    bug: 'The release of a re-entry releases the lock of the outer call.',
    edits: [
      {
        file: 'lib/kernel/grant.ts',
        search: 'if (--this.leases > 0) return RESOLVED;',
        replace: '',
      },
    ],
  },
  {
    name: 're-enters-lost-lease',
    bug: 'A call chain re-enters a lock that it has lost (CURATOR-206).',
    edits: [
      {
        file: 'lib/kernel/call-chain.ts',
        search: 'if (grant?.held === false && grant.lost) throw grant.lost;',
        replace: '',
      },
    ],
  },
  {
    name: 'ignores-hold-at-least',
    bug: 'A lock is released before its `holdAtLeast` has passed.',
    edits: [
      {
        file: 'lib/kernel/grant.ts',
        search: 'if (keepFor > 0) {',
        replace: 'if (keepFor === Infinity) {',
      },
    ],
  },
  {
    name: 'ignores-hold-at-most',
    bug: 'A lease is not lost when its `holdAtMost` has passed.',
    edits: [
      {
        file: 'lib/kernel/grant.ts',
        search: 'setTimeout(expire, holdAtMost)',
        replace: 'setTimeout(expire, 2 ** 31 - 1)',
      },
    ],
  },
  {
    name: 'strict-caller-succeeds-any-holder',
    bug: 'A strict caller waits for any strict caller of its process instead of the one just ahead, and continues any released hold.',
    edits: [
      {
        file: SUCCESSION,
        search: `const place = this.placeOf(ahead);
    if`,
        replace: `const place = [...state.current.places.values()][0];
    if`,
      },
      {
        file: SUCCESSION,
        search: `const place = this.placeOf(ahead);
    //`,
        replace: `const place = [...state.current.places.values()].find(({ hold }) => hold);
    //`,
      },
      {
        file: SUCCESSION,
        search: 'if (hold) this.placeOf(ahead)!.taken = true;',
        replace: '',
      },
    ],
  },
  {
    name: 'strict-caller-without-own-znode',
    bug: 'A strict caller succeeds the holder ahead although its own znode was deleted while it waited.',
    edits: [
      {
        file: SUCCESSION,
        search:
          'this.ownWatch = new NodeWatch(client, { session, nodes: [node] }, { deleted, read: () => {} });',
        replace: '',
      },
    ],
  },
  {
    name: 'strict-caller-succeeds-reader',
    bug: 'A strict writer is granted the lock when the reader just ahead has released, although another reader holds it.',
    edits: [
      {
        file: 'lib/kernel/ownership.ts',
        search: "if (final || recipe === 'read' || this.tokensUsedUp) return undefined;",
        replace: 'if (final || this.tokensUsedUp) return undefined;',
      },
    ],
  },
  {
    name: 'strict-caller-succeeds-final-hold',
    bug: 'A strict caller succeeds a holder whose znode was deleted, or whose transaction may still be applied.',
    edits: [
      {
        file: 'lib/kernel/ownership.ts',
        search: "if (final || recipe === 'read' || this.tokensUsedUp) return undefined;",
        replace: "if (recipe === 'read' || this.tokensUsedUp) return undefined;",
      },
    ],
  },
  {
    name: 'strict-caller-repeats-token',
    bug: 'A strict caller has the token of the holder that it succeeds.',
    edits: [
      {
        file: 'lib/kernel/ownership.ts',
        search: 'this.tokens = position.tokens ?? 0;',
        replace: 'this.tokens = Math.max(0, (position.tokens ?? 0) - 1);',
      },
    ],
  },
  {
    name: 'strict-reader-token-below-writer',
    bug: 'A strict reader has the first token of the zxid, and so a lower one than the writer that it succeeds.',
    edits: [
      {
        file: 'lib/kernel/ownership.ts',
        search: 'const nth = shared ? this.tokens : this.tokens++;',
        replace: 'const nth = shared ? 0 : this.tokens++;',
      },
    ],
  },
];
