import { describe, it } from 'vitest';
import { Mutex } from 'nestjs-zookeeper/recipes';
import { type Subject, useSchedules } from '../../support/lock-schedule.js';

const mutex: Subject = {
  wants: [{ kind: 'exclusive', count: 1 }],
  nodeEach: false,
  acquire: (client, path, _want, options) => new Mutex(client, path).acquire(options),
  together: (inside) => inside.length <= 1,
  queues: (path) => [path],
};

describe.runIf(process.env.ZK_SERVER === 'embedded')(
  'any schedule of a mutex',
  { retry: 0 },
  () => {
    const schedules = useSchedules(mutex);

    it('excludes, keeps the order of arrival, grants to every waiter and leaves nothing', () =>
      schedules(false));

    it('excludes, grants to every waiter and leaves nothing, with broken connections and expired sessions', () =>
      schedules(true));
  },
);
