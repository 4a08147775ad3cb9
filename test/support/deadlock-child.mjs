// A process that acquires one lock inside another, for tests of deadlocks between processes.
import { Mutex, onDeadlock, ZkClient } from 'nestjs-zookeeper/recipes';
import { answer, send } from '../../dist-scripts/faults/child-side.js';

const { connectString, transport, root, name } = JSON.parse(process.argv[2]);
// As in test/support/servers.ts.
const allowUnsafeFencing = process.env.ZK_PROFILE === 'raftkeeper';
const client = new ZkClient({ connectString, transport, sessionTimeout: 4000, allowUnsafeFencing });
const lock = (key) => new Mutex(client, `${root}/${key}`, { key });
const details = { name, text: `of ${name}` };

/** The time at which it began to wait for the inner lock. */
let since;
let outer;
let goOn;

onDeadlock(({ cycle, message }) => {
  send({ type: 'deadlock', cycle, message, since, at: Date.now() });
});

answer({
  async hold(key) {
    await client.connect();
    await new Promise((held) => {
      outer = lock(key).withLock(
        async () => {
          const inner = await new Promise((resolve) => {
            goOn = resolve;
            held();
          });
          return lock(inner.key).withLock(() => 'done', { details, ...inner.options });
        },
        { details },
      );
    });
  },
  /** Acquires another lock inside the first; resolves with the outcome. */
  async cross(inner) {
    since = Date.now();
    goOn(inner);
    try {
      return await outer;
    } catch (error) {
      return error.code;
    }
  },
});
