import { LeaderLatch } from 'nestjs-zookeeper/recipes';
import { now } from '../clock.mjs';
import { drive } from './drive.mjs';

/** Some participants, each with a session of its own, whose leader resigns again and again: how long nobody leads. */
export async function election(connect, path, participants, load) {
  const clients = await Promise.all(Array.from({ length: participants }, connect));
  let leader;
  let elected = () => {};
  const latches = clients.map((client, index) => {
    const latch = new LeaderLatch(client, path, { id: `participant-${index}` });
    latch.onChange((term) => {
      if (!term) return;
      leader = latch;
      elected(now());
    });
    return latch;
  });
  try {
    const first = new Promise((resolve) => (elected = resolve));
    for (const latch of latches) latch.start();
    await first;
    return await drive(
      async () => {
        const next = new Promise((resolve) => (elected = resolve));
        await leader.resign();
        return next;
      },
      { callers: 1, ...load },
    );
  } finally {
    await Promise.all(latches.map((latch) => latch.close()));
    await Promise.all(clients.map((client) => client.close()));
  }
}
