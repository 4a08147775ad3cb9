// One instance: a client, a latch, and, while it leads, writes under its fencing token. It tells its
// parent what happens to it and does what that asks for.
import { LeaderLatch, ZkClient } from 'nestjs-zookeeper/recipes';
import { answer, tell } from '../faults/child-side.mjs';
import { now } from '../faults/clock.mjs';

/** Milliseconds between two writes of a leader. */
const WRITE_EVERY = 20;

const [connectString, sessionTimeout, path, id] = process.argv.slice(2);
const client = new ZkClient({ connectString, sessionTimeout: Number(sessionTimeout) });
const latch = new LeaderLatch(client, path, { id });

const requests = {
  resign: () => latch.resign(),
  participants: async () => (await latch.participants()).map((participant) => participant.id),
  /** Milliseconds that a create of a node like the latch's takes. */
  async measure() {
    const session = await client.session();
    const start = now();
    const node = await session.create('/measured-', id, { mode: 'ephemeral-sequential' });
    const took = now() - start;
    await session.delete(node);
    return took;
  },
  async credentials() {
    return (await client.session()).credentials;
  },
};

answer(requests);

latch.onChange((term) => term && lead(term));
await client.connect();
latch.start();

function lead(term) {
  const token = term.fencingToken;
  tell({ type: 'elected', token, at: now() });
  const write = () => term.active && tell({ type: 'write', token });
  write();
  const writing = setInterval(write, WRITE_EVERY);
  term.signal.addEventListener('abort', () => {
    const at = now();
    clearInterval(writing);
    // Not here: telling takes time, and the node is about to be deleted.
    setImmediate(() => tell({ type: 'ended', token, at }));
  });
}
