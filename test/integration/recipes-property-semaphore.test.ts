import fc from 'fast-check';
import { describe, it } from 'vitest';
import { Semaphore } from 'nestjs-zookeeper/recipes';
import { bounds, stepsOf, type Subject, useSchedules } from '../support/lock-schedule.js';

const PERMITS = 3;

const semaphore: Subject = {
  wants: [1, 1, 2, 3].map((count) => ({ kind: 'permits', count })),
  nodeEach: false,
  acquire: (client, path, { count }, options) =>
    new Semaphore(client, path, { permits: PERMITS }).acquire({ ...options, count }),
  together: (inside) => inside.reduce((sum, { count }) => sum + count, 0) <= PERMITS,
  queues: (path) => [`${path}/locks`, `${path}/leases`],
};

describe.runIf(process.env.ZK_SERVER === 'embedded')('any schedule of a semaphore', () => {
  const run = useSchedules(semaphore);

  it('keeps to its permits and the order of arrival, wakes everybody and leaves nothing', async () => {
    await fc.assert(
      fc.asyncProperty(stepsOf(semaphore, false), (steps) => run(steps, true)),
      bounds(250),
    );
  });

  it('keeps to its permits, wakes everybody and leaves nothing where connections break and sessions end', async () => {
    await fc.assert(
      fc.asyncProperty(stepsOf(semaphore, true), (steps) => run(steps, false)),
      bounds(250),
    );
  });
});
