import { describe, expect, it } from 'vitest';
import { injectedService, injectService } from '../../../lib/decorators/injected-service.js';
import { LeadershipRequirement } from '../../../lib/decorators/leader-only.decorator.js';

describe('the service that a decorator injects', () => {
  class Jobs {}
  const requirement = new LeadershipRequirement(Jobs.prototype, 'run', { election: 'boss' });
  const property = injectService(Jobs.prototype, requirement);

  it('can be injected more than once, as Nest 11 does', () => {
    const jobs = new Jobs() as Record<symbol, unknown>;
    jobs[property] = 'first';
    jobs[property] = 'second';
    expect(injectedService(jobs, property, requirement)).toBe('second');
  });

  it('is not visible among the properties of the instance', () => {
    const jobs = new Jobs() as Record<symbol, unknown>;
    jobs[property] = 'service';
    expect({ ...jobs }).toEqual({});
  });
});
