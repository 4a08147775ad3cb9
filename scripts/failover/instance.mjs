// One instance: a client and a latch that, while it leads, writes under its fencing token. It reports its
// terms to its parent and answers the parent's requests.
import { LeaderLatch, ZkClient } from 'nestjs-zookeeper/recipes';
import { answer, send } from '../faults/child-side.mjs';
import { now } from '../faults/clock.js';

/** Milliseconds between two writes of a leader. */
const WRITE_EVERY = 20;

const [connectString, sessionTimeout, path, id] = process.argv.slice(2);
const client = new ZkClient({ connectString, sessionTimeout: Number(sessionTimeout) });
const latch = new LeaderLatch(client, path, { id });

const requests = {
  resign: () => latch.resign(),
  participants: async () => (await latch.participants()).map((participant) => participant.id),
  /** Returns the latency in milliseconds of a create like the latch's. */
  async measure() {
    const session = await client.session();
    const start = now();
    const node = await session.create('/measured-', id, { mode: 'ephemeral-sequential' });
    const took = now() - start;
    await session.delete(node);
    return took;
  },
  async credentials() {
    const session = await client.session();
    // The public type of a session has no credentials.
    return 'credentials' in session ? session.credentials : undefined;
  },
};

answer(requests);

latch.onChange((term) => term && lead(term));
await client.connect();
latch.start();

function lead(term) {
  const token = term.fencingToken;
  send({ type: 'elected', token, at: now() });
  const write = () => term.active && send({ type: 'write', token });
  write();
  const writing = setInterval(write, WRITE_EVERY);
  term.signal.addEventListener('abort', () => {
    const at = now();
    clearInterval(writing);
    // Later, because sending takes time, and the latch is about to delete its node.
    setImmediate(() => send({ type: 'ended', token, at }));
  });
}
