import type { Mutation } from './operators.js';

/** A mutation that no user can notice, with the reason. */
interface Equivalent extends Pick<Mutation, 'file' | 'code' | 'operator' | 'before' | 'after'> {
  readonly why: string;
}

/** Survivors that were read by a person. The score leaves them out. */
export const EQUIVALENT: readonly Equivalent[] = [
  {
    file: 'lib/client/session-manager.ts',
    code: 'if (delay > 0) setTimeout(() => this.#closeOrphans(), Math.ceil(delay) + 1).unref();',
    operator: 'other comparison',
    before: '>',
    after: '>=',
    why: 'The next connection closes such a session, with the timer or without it.',
  },
  {
    file: 'lib/kernel/handover.ts',
    code: "(this.spec.shared && (this.state === 'held' || this.state === 'leaving'));",
    operator: 'dropped operand',
    before: "this.spec.shared && (this.state === 'held' || this.state === 'leaving')",
    after: '(this.spec.shared)',
    why: 'In the other states there is an obstacle, or a waiter.',
  },
  {
    file: 'lib/kernel/queue.ts',
    code: 'if (early.length > 0) await refuse(early, wait, blocker);',
    operator: 'other comparison',
    before: '>',
    after: '>=',
    why: 'Without a try, the znode ahead is read once more, and nothing depends on that.',
  },
  {
    file: 'lib/kernel/dead-holder.ts',
    code: 'if (stat.ephemeralOwner === session.id || isSimulated()) return undefined;',
    operator: 'dropped operand',
    before: 'stat.ephemeralOwner === session.id || isSimulated()',
    after: '(stat.ephemeralOwner === session.id)',
    why: 'Outside of the simulation isSimulated() is false.',
  },
  {
    file: 'lib/kernel/time-slice.ts',
    code: 'return now < current.end ? undefined : (current.yielding as Promise<void>);',
    operator: 'other comparison',
    before: '<',
    after: '<=',
    why: 'The callers let the event loop run after the end of the slice instead of at its end.',
  },
  {
    file: 'lib/kernel/handover.ts',
    code: 'if (left > 0) this.startLingerTimer(left);',
    operator: 'other comparison',
    before: '>',
    after: '>=',
    why: 'A timer of 0 ms ends the linger time in the next turn of the event loop.',
  },
  {
    file: 'lib/kernel/node-watch.ts',
    code: 'this.watches.delete(watch);',
    operator: 'dropped statement',
    before: 'this.watches.delete(watch);',
    after: ';',
    why: 'The removal of a watch that has fired does nothing.',
  },
  {
    file: 'lib/kernel/node-watch.ts',
    code: 'return;',
    operator: 'dropped statement',
    before: 'return;',
    after: ';',
    why: 'Every `deleted` listener stops the watch.',
  },
  {
    file: 'lib/kernel/queue.ts',
    code: 'return children.length === 1 || spec.nodeAhead(queueOf(spec, children), own) === undefined;',
    operator: 'dropped operand',
    before: 'children.length === 1 || spec.nodeAhead(queueOf(spec, children), own) === undefined',
    after: '(children.length === 1)',
    why: 'A shared lock that is free beside others is then granted by waitInQueue(), a little later.',
  },
  {
    file: 'lib/kernel/session-retry.ts',
    code: 'if (pause > 0) await sleep(pause, { signals: [signal], until });',
    operator: 'other comparison',
    before: '>',
    after: '>=',
    why: 'A pause of 0 ms ends in the next turn of the event loop.',
  },
  {
    file: 'lib/client/session.ts',
    code: 'if (!transport.request(create, onCreated)) this.#rejectUnsent(create, parent, done);',
    operator: 'dropped statement',
    before: 'this.#rejectUnsent(create, parent, done);',
    after: ';',
    why: 'A transport refuses a request only after its end, and then its session has no transport.',
  },
  {
    file: 'lib/client/transport/wire-queue.ts',
    code: 'for (const { request } of waiting) if (isGroupable(request) && ++count === 2) return true;',
    operator: 'dropped operand',
    before: 'isGroupable(request) && ++count === 2',
    after: '(isGroupable(request))',
    why: 'A group of one request is sent as that request, in its place. Only the search for a group costs time.',
  },
  {
    file: 'lib/coordination/recipes/distributed-queue.ts',
    code: 'if (data.length > MAX_REQUEST) {',
    operator: 'other comparison',
    before: '>',
    after: '>=',
    why: 'The client refuses a create with so many bytes of data too, because its path adds some.',
  },
  {
    file: 'lib/client/transport/wire-queue.ts',
    code: 'const exceeds = count > MAX_OPERATIONS || this.#bytes + bytes > MAX_BYTES;',
    operator: 'other comparison',
    before: '>',
    after: '>=',
    why: 'The requests of a group that would have just as many bytes as allowed are sent in two groups.',
  },
];

export function isEquivalent(mutation: Mutation): boolean {
  const keys = ['file', 'code', 'operator', 'before', 'after'] as const;
  return EQUIVALENT.some((each) => keys.every((key) => each[key] === mutation[key]));
}
