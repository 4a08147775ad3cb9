import * as coordination from '../../lib/coordination/index.js';
import * as nest from '../../lib/index.js';
import * as recipes from '../../lib/recipes/index.js';
import * as schedule from '../../lib/schedule/index.js';
import * as testing from '../../lib/testing/index.js';
import { describe, expect, it } from 'vitest';
import { exploreScenario } from '../../scripts/explore/explore-scenario.js';
import { SCENARIOS } from '../../scripts/explore/scenarios.js';

/** One of so many combinations of faults and moments is run. `npm run explore` runs all of them. */
const SAMPLE = 150;

const library = { coordination, nest, recipes, schedule, testing };
const cases = Object.entries(SCENARIOS).flatMap(([name, scenario]) =>
  (scenario.kinds ?? ['zookeeper']).map((server) => ({ name, scenario, server })),
);

describe('under single faults', () => {
  it.each(cases)('$name on $server keeps its promises', async ({ scenario, server }) => {
    const shard = { index: 0, count: SAMPLE };
    const { schedules, violations } = await exploreScenario(library, scenario, server, { shard });
    expect(schedules).toBeGreaterThan(2);
    expect(violations.map(({ plan, error }) => ({ plan, why: String(error.cause) }))).toEqual([]);
  });
});
