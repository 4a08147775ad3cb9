import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import {
  type ConnectionEvent,
  ConnectionStateMachine,
} from '../../../lib/client/session-manager.js';
import type { ConnectionState } from '../../../lib/client/types.js';
import type { Handover } from '../../../lib/kernel/handover.js';

const page = readFileSync(
  new URL('../../../docs/internals/state-machines.md', import.meta.url),
  'utf8',
);

/** The arrows of a diagram, without that of the initial state. */
function arrowsOf(heading: string): { from: string; to: string; label: string }[] {
  const diagram = page.split(`## ${heading}\n`)[1]!.split('```')[1]!;
  return [...diagram.matchAll(/^ +(\w+) --> (\w+): (.+)$/gm)].map(([, from, to, label]) => ({
    from: from!,
    to: to!,
    label: label!,
  }));
}

describe('docs/internals/state-machines.md', () => {
  it('has the transitions of the connection', () => {
    const states: ConnectionState[] = [
      ...(['CONNECTING', 'CONNECTED', 'SUSPENDED'] as const),
      ...(['RECONNECTED', 'LOST', 'CLOSED'] as const),
    ];
    const events: ConnectionEvent[] = ['attached', 'detached', 'lost', 'closed'];
    const transitions = states.flatMap((from) =>
      events.flatMap((label) => {
        const machine = new ConnectionStateMachine();
        machine.state = from;
        machine.apply(label, undefined);
        return machine.state === from ? [] : [{ from, to: machine.state, label }];
      }),
    );
    const toClosed = transitions.filter(({ label }) => label === 'closed');
    // The page says that `closed` leads from each state to CLOSED.
    expect(toClosed.map(({ from }) => from)).toEqual(states.filter((state) => state !== 'CLOSED'));
    const arrows = transitions.filter((transition) => !toClosed.includes(transition));
    expect(new Set(arrowsOf('The connection'))).toEqual(new Set(arrows));
  });

  it('has the states of a hand-over', () => {
    const states: Record<Handover['state'], true> = {
      held: true,
      leaving: true,
      deferred: true,
      lingering: true,
      closed: true,
    };
    const named = arrowsOf('Hand-over').flatMap(({ from, to }) => [from, to]);
    expect(new Set(named)).toEqual(new Set(Object.keys(states)));
  });
});
