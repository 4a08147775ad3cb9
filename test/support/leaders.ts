import { LeaderLatch, LeaderSelector, type Term, type ZkClient } from 'nestjs-zookeeper/recipes';
import type { LeaderSelectorOptions } from '../../lib/recipes/leader-selector.js';
import { untilNodes } from './recipe-nodes.js';

/** Starts latches one after the other, so that they queue in this order. */
export async function latchesIn(path: string, ...clients: ZkClient[]): Promise<LeaderLatch[]> {
  const latches: LeaderLatch[] = [];
  for (const [index, client] of clients.entries()) {
    const latch = new LeaderLatch(client, path, { id: `latch ${index}` });
    latch.start();
    await untilNodes(client, path, index + 1);
    latches.push(latch);
  }
  return latches;
}

/** A leader whose terms end when the test ends them or, with `obeys`, when their signals abort. */
export class Leader {
  readonly terms: Term[] = [];
  readonly selector: LeaderSelector;
  inside = 0;
  #end: () => void = () => {};
  readonly #awaited = new Map<number, (term: Term) => void>();

  constructor(
    client: ZkClient,
    path: string,
    options: LeaderSelectorOptions & { obeys?: boolean },
  ) {
    const { obeys = true, ...rest } = options;
    const take = async (term: Term) => {
      this.inside++;
      this.#awaited.get(this.terms.push(term))?.(term);
      await new Promise<void>((resolve) => {
        this.#end = resolve;
        if (obeys) term.signal.addEventListener('abort', () => resolve());
      });
      this.inside--;
    };
    this.selector = new LeaderSelector(client, path, take, rest);
  }

  /** Ends the present term: its `takeLeadership` returns. */
  end(): void {
    this.#end();
  }

  /** Resolves with the term of that number when it has begun. */
  leads(nth = 1): Promise<Term> {
    const term = this.terms[nth - 1];
    return term
      ? Promise.resolve(term)
      : new Promise((resolve) => void this.#awaited.set(nth, resolve));
  }
}

/** Starts selectors one after the other, so that they queue in this order. */
export async function selectorsIn(
  path: string,
  clients: ZkClient[],
  options: LeaderSelectorOptions & { obeys?: boolean } = {},
): Promise<Leader[]> {
  const leaders: Leader[] = [];
  for (const [index, client] of clients.entries()) {
    const leader = new Leader(client, path, { id: `selector ${index}`, ...options });
    leader.selector.start();
    await untilNodes(client, path, index + 1);
    leaders.push(leader);
  }
  return leaders;
}
