// A process that holds a mutex, for a test that stops it. It reads the lease in the first code that runs after the pause.
import { Mutex, ZkClient } from 'nestjs-zookeeper/recipes';
import { answer } from '../../scripts/faults/child-side.mjs';

const { path, pause, ...options } = JSON.parse(process.argv[2]);
/** @type {import('nestjs-zookeeper/recipes').Lease} */
let lease;
/**
 * The signal as it was read at the grant.
 *
 * @type {AbortSignal}
 */
let signal;
/**
 * The lease as the first tick after a pause read it.
 *
 * @type {ReturnType<typeof readLease> | undefined}
 */
let firstReadAfterPause;

answer({
  async hold() {
    const client = new ZkClient(options);
    await client.connect();
    lease = await new Mutex(client, path).acquire();
    ({ signal } = lease);
    let last = performance.now();
    setInterval(() => {
      const now = performance.now();
      if (now - last > pause) firstReadAfterPause ??= readLease();
      last = now;
    }, 1);
    return lease.fencingToken;
  },
  firstReadAfterPause: () => firstReadAfterPause,
  savedSignalAborted: () => signal.aborted,
});

function readLease() {
  return { aborted: lease.signal.aborted, held: lease.held };
}
