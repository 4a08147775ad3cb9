import { loadLibrary } from '../simulation/library.js';
import type { EmbeddedServerKind } from '../simulation/types.js';
import { exploreScenario } from './explore-scenario.js';
import { SCENARIOS } from './scenarios.js';

/*
 * The module of a worker process, which explores parts of scenarios, one after the other. Its argument is the build of the
 * library. It sends `ready`, and then one message for each part that it receives.
 */

type ExploreOptions = NonNullable<Parameters<typeof import('nestjs-zookeeper/testing').explore>[0]>;
type ExploreResult = import('nestjs-zookeeper/testing').ExploreResult;
type ExploreViolation = import('nestjs-zookeeper/testing').ExploreViolation;

/** A part of the work. */
export interface Part {
  readonly scenario: string;
  readonly server: EmbeddedServerKind;
  readonly shard: { readonly index: number; readonly count: number };
  readonly pairs: boolean;
}

/** What a worker receives. */
export interface PartRequest extends Part {
  readonly maxSeconds: number;
}

/** What a worker sends back. An error is the text of a scenario that failed without a fault. */
export type PartResult =
  | (Omit<ExploreResult, 'violations'> & {
      readonly violations: readonly Omit<ExploreViolation, 'error'>[];
    })
  | { readonly error: string };

process.on('SIGINT', () => {});
process.on('disconnect', () => process.exit());

// Capturing stacks would take a tenth of the time. A plan is run again for its trace.
Error.stackTraceLimit = 0;

const library = await loadLibrary(process.argv[2]!);
process.on('message', async ({ scenario, server, ...options }: PartRequest) => {
  process.send!(await explorePart(scenario, server, options));
});
process.send!('ready');

async function explorePart(
  scenario: string,
  server: EmbeddedServerKind,
  options: Pick<ExploreOptions, 'shard' | 'pairs' | 'maxSeconds'>,
): Promise<PartResult> {
  try {
    const result = await exploreScenario(library, SCENARIOS[scenario]!, server, options);
    const violations = result.violations.map(({ plan, error }) => ({
      plan,
      message: error.cause instanceof Error ? error.cause.message : error.message,
    }));
    return { ...result, violations };
  } catch (error) {
    return { error: error instanceof Error ? error.message : String(error) };
  }
}
