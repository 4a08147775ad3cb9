import { describe, it } from 'vitest';
import { ReadWriteLock } from 'nestjs-zookeeper/recipes';
import { type Subject, useSchedules } from '../../support/lock-schedule.js';

const readWriteLock: Subject = {
  wants: [
    { kind: 'read', count: 1 },
    { kind: 'read', count: 1 },
    { kind: 'write', count: 1 },
  ],
  nodeEach: true,
  acquire: (client, path, { kind }, options) => {
    const { read, write } = new ReadWriteLock(client, path);
    return (kind === 'write' ? write : read).acquire(options);
  },
  downgrade: (client, path, lease) => new ReadWriteLock(client, path).downgrade(lease),
  together: (inside) => inside.length <= 1 || inside.every(({ kind }) => kind === 'read'),
  queues: (path) => [path],
};

describe.runIf(process.env.ZK_SERVER === 'embedded')(
  'any schedule of a read/write lock',
  { retry: 0 },
  () => {
    const schedules = useSchedules(readWriteLock);

    it('excludes, keeps the order of arrival, grants to every waiter and leaves nothing', () =>
      schedules(false));

    it('excludes, grants to every waiter and leaves nothing, with broken connections and expired sessions', () =>
      schedules(true));
  },
);
