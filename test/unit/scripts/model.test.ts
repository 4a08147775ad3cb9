import { describe, expect, it } from 'vitest';
import { CONFIGURATIONS, modelBugs } from '../../../scripts/model/configurations.js';
import { MUTANTS } from '../../../scripts/simulation/mutants/index.js';

describe('the model of the lock', () => {
  it('has bugs that the simulation plants too, for rules of CONTRIBUTING.md', () => {
    const bugs = modelBugs();
    const names = bugs.map(({ name }) => name);
    expect(names.length).toBeGreaterThanOrEqual(34);
    expect(new Set(names).size).toBe(names.length);
    expect(MUTANTS.map(({ name }) => name)).toEqual(expect.arrayContaining(names));
    expect(bugs.find(({ name }) => name === 're-enters-lost-lease')).toMatchObject({ rule: 9 });
    for (const { rule, configuration } of bugs) {
      expect(rule).toBeGreaterThanOrEqual(1);
      // The gate plants each bug, so its configuration has to be a small one.
      expect(configuration.quick).toBe(true);
    }
  });

  it('has configurations that differ', () => {
    const constants = CONFIGURATIONS.map(({ constants }) => JSON.stringify(constants));
    expect(new Set(constants).size).toBe(constants.length);
  });
});
