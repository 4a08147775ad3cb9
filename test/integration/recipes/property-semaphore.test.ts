import { describe, it } from 'vitest';
import { Semaphore } from 'nestjs-zookeeper/recipes';
import { type Subject, useSchedules } from '../../support/lock-schedule.js';

const PERMITS = 3;

const semaphore: Subject = {
  wants: [1, 1, 2, 3].map((count) => ({ kind: 'permits', count })),
  nodeEach: false,
  acquire: (client, path, { count }, options) =>
    new Semaphore(client, path, { permits: PERMITS }).acquire({ ...options, count }),
  together: (inside) => inside.reduce((sum, { count }) => sum + count, 0) <= PERMITS,
  queues: (path) => [`${path}/locks`, `${path}/leases`],
};

describe.runIf(process.env.ZK_SERVER === 'embedded')(
  'any schedule of a semaphore',
  { retry: 0 },
  () => {
    const schedules = useSchedules(semaphore);

    it('never exceeds its permits, keeps the order of arrival, grants to every waiter and leaves nothing', () =>
      schedules(false));

    it('never exceeds its permits, grants to every waiter and leaves nothing, with broken connections and expired sessions', () =>
      schedules(true));
  },
);
