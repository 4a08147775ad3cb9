import type { Mutant } from './mutant.js';

/** Bugs of the session and the connection of a client. */
export const SESSION_MUTANTS: readonly Mutant[] = [
  {
    name: 'declares-lost-at-full-timeout',
    bug: 'The session deadline is the whole session timeout, so a client whose clock is slow trusts an expired session.',
    edits: [
      {
        file: 'lib/client/session-deadline.ts',
        search: 'sessionTimeout * 0.75',
        replace: 'sessionTimeout',
      },
    ],
  },
  {
    name: 'declares-lost-only-on-reconnect',
    bug: 'The client never declares LOST by its own clock, so a partitioned holder keeps its lease after its session expired.',
    edits: [
      {
        file: 'lib/client/session.ts',
        search: 'if (this.deadline.left > 0) return true;',
        replace: 'if (this.#timeout >= 0) return true;',
      },
    ],
  },
  {
    name: 'trusts-session-without-clock',
    bug: 'After a pause, the first code still sees a held lease, because the client does not read the clock of the session.',
    edits: [
      {
        file: 'lib/client/session.ts',
        search: "return this.alive && (this.#settings.policy === 'session' || this.connected);",
        replace:
          "return !this.#state.end && (this.#settings.policy === 'session' || this.connected);",
      },
    ],
  },
  {
    name: 'counts-deadline-from-reply',
    bug: 'The session deadline counts from the arrival of a reply, so an old reply that is read after a pause extends an expired session.',
    edits: [
      {
        file: 'lib/client/session-deadline.ts',
        search: 'if (isAnswer(code)) this.extend(sentAt);',
        replace: 'if (isAnswer(code)) this.extend(instant());',
      },
    ],
  },
  {
    name: 'repeats-creates-behind-failed-group',
    bug: 'After a group of requests has failed, the client also repeats the creates that were sent behind it, although they were applied.',
    edits: [
      {
        file: 'lib/client/transport/wire-queue.ts',
        search: 'this.frames.push({ sent: call, dependsOn });',
        replace:
          'this.frames.push({ sent: call, dependsOn: this.#groupAt < 0 ? dependsOn : this.#group });',
      },
    ],
  },
  {
    name: 'does-not-repeat-failed-group',
    bug: 'If a group of requests fails, the client takes it for applied and repeats none of its requests.',
    edits: [
      {
        file: 'lib/client/transport/wire-requests.ts',
        search: 'return { failed: index, code };',
        replace: "return { results: operations.map(() => '/lost') };",
      },
    ],
  },
  {
    name: 'reads-extend-deadline',
    bug: 'The answer to a read extends the session deadline, but a follower that has lost its leader answers reads while the leader expires the session.',
    edits: [
      {
        file: 'lib/client/session.ts',
        search: 'isRead ? settle : this.deadline.extendedBy(settle)',
        replace: 'this.deadline.extendedBy(settle)',
      },
    ],
  },
  {
    name: 'no-sync-after-reconnect',
    bug: 'After a reconnect the client reads without a sync, and a server that lags behind hides the node of a create whose reply was lost.',
    edits: [
      {
        file: 'lib/client/session.ts',
        search: "transport.request({ kind: 'sync', path: '/' }, (code) => {",
        replace: "transport.request({ kind: 'exists', path: '/' }, (code) => {",
      },
      {
        file: 'lib/kernel/own-node.ts',
        search: 'await session.sync(parent);',
        replace: '',
      },
    ],
  },
  {
    name: 'forgets-watches-on-reconnect',
    bug: 'After a reconnect, waiters do not list their queues again, although the server has removed their watches.',
    edits: [
      {
        file: 'lib/client/session.ts',
        search: 'this.#observer.attached();\n    this.watches.fireAll();',
        replace: 'this.#observer.attached();',
      },
    ],
  },
  {
    name: 'notifies-one-lease-of-loss',
    bug: 'The loss of a session notifies only the first of its leases; the signals of the others never abort.',
    edits: [
      {
        file: 'lib/client/listeners.ts',
        search: 'if (this.#listeners.delete(listener)) callListener(listener, value);',
        replace: 'if (this.#listeners.delete(listener)) return callListener(listener, value);',
      },
    ],
  },
  {
    name: 'ignores-suspension-under-standard-policy',
    bug: 'Under the policy `standard` a suspended connection ends no lease.',
    edits: [
      {
        file: 'lib/client/session.ts',
        search: "const isDoubt = this.#settings.policy === 'standard';",
        replace: 'const isDoubt = false;',
      },
    ],
  },
  {
    name: 'does-not-retry-release',
    bug: 'A delete that was lost with its connection is not sent again, so the node of a released lock is never deleted (CURATOR-678, CURATOR-486).',
    edits: [
      { file: 'lib/client/session.ts', search: 'this.#deletes.set(path, true);', replace: '' },
    ],
  },
  {
    name: 'resolves-release-before-delete',
    bug: 'release() resolves before the delete was sent, so a tryAcquire() of another process fails.',
    edits: [
      {
        file: 'lib/client/session.ts',
        search: `const sent = this.#state.transport?.request({ kind: 'delete', path, version: -1 }, reply);
      if (!sent) resolve();`,
        replace: `resolve();
      const { transport } = this.#state;
      setTimeout(() => transport?.request({ kind: 'delete', path, version: -1 }, reply), 20);`,
      },
    ],
  },
  {
    name: 'close-leaves-session',
    bug: 'close() closes only the connection, so the session and its nodes exist until the session timeout.',
    edits: [
      {
        file: 'lib/client/session.ts',
        search: "if (await transport.close()) return 'confirmed';",
        replace: `transport.destroy();
      return 'confirmed';`,
      },
    ],
  },
];
