import { loadLibrary } from '../simulation/library.js';
import type { EmbeddedServerKind } from '../simulation/types.js';
import { serveRequests } from '../worker-process.js';
import { exploreScenario } from './explore-scenario.js';
import { SCENARIOS } from './scenarios.js';

// The module of a worker process, which explores parts of scenarios. Its argument is the build of the library.

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

const library = await loadLibrary(process.argv[2]!);
serveRequests(({ scenario, server, ...options }: PartRequest) =>
  explorePart(scenario, server, options),
);

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
