import { describe, it } from 'vitest';
import { LeaderLatch } from 'nestjs-zookeeper/recipes';
import { type Contestant, useElections } from '../../support/leader-schedule.js';
import { Leader } from '../../support/leaders.js';
import { useServer } from '../../support/servers.js';

const server = useServer();

describe.each<[string, (...entry: ConstructorParameters<typeof LeaderLatch>) => Contestant]>([
  [
    'latches',
    (client, path, options) => {
      const latch = new LeaderLatch(client, path, options);
      return { candidate: latch, resign: () => void (latch.state === 'started' && latch.resign()) };
    },
  ],
  [
    'selectors',
    (client, path, options) => {
      const leader = new Leader(client, path, { ...options, autoRequeue: true });
      return { candidate: leader.selector, resign: () => leader.end() };
    },
  ],
])('any schedule of %s', { retry: 0 }, (_name, enter) => {
  const schedules = useElections(server, (client, path, id) => enter(client, path, { id }));

  it('has one leader at a time, lets every candidate lead and leaves nothing behind', () =>
    schedules());
});
