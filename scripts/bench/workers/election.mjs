import { LeaderLatch } from 'nestjs-zookeeper/recipes';
import { now } from '../clock.js';
import { drive } from './drive.mjs';

/** Measures the time without a leader: the leader of some participants, each with its own session, resigns again and again. */
export async function election(connect, path, participants, load) {
  const clients = await Promise.all(Array.from({ length: participants }, connect));
  let leader;
  /** @type {(time: number) => void} */
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
    return await drive(async () => {
      const next = new Promise((resolve) => (elected = resolve));
      await leader.resign();
      return next;
    }, load);
  } finally {
    await Promise.all(latches.map((latch) => latch.close()));
    await Promise.all(clients.map((client) => client.close()));
  }
}
