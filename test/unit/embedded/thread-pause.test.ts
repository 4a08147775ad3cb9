import { syncBuiltinESMExports } from 'node:module';
import timers from 'node:timers';
import { expect, test, vi } from 'vitest';
import { resolveOptions } from '../../../lib/embedded/options.js';
import { ZooKeeperServer } from '../../../lib/embedded/server.js';
import { RawClient } from '../../support/raw-client.js';

const blockThread = (milliseconds: number) =>
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, milliseconds);

/** Whether a setImmediate callback waits in the present turn of the event loop. */
function immediates(): { readonly due: boolean } {
  const look = { due: false };
  const { setImmediate } = timers;
  const noted = (work: () => void) => {
    look.due = true;
    return setImmediate(() => {
      look.due = false;
      work();
    });
  };
  vi.spyOn(timers, 'setImmediate').mockImplementation(noted as typeof setImmediate);
  syncBuiltinESMExports();
  return look;
}

test.each(['at any time', 'just before it checks its sessions'])(
  'After a pause of its thread %s, the server reads the waiting requests before it expires sessions',
  async (when) => {
    const server = new ZooKeeperServer(resolveOptions({ tickTime: 10, minSessionTimeout: 1000 }));
    const look = immediates();
    const port = await server.listen();
    const client = await RawClient.connect({ port, timeout: 1000 });
    const silent = await RawClient.connect({ port, timeout: 1000 });
    if (when !== 'at any time') {
      do await client.ping();
      while (!look.due);
    }

    const sentBefore = client.ping();
    blockThread(1500);

    expect((await sentBefore).err).toBe(0);
    expect((await client.ping()).err).toBe(0);
    await silent.closed;
    await server.close();
    vi.restoreAllMocks();
    syncBuiltinESMExports();
  },
);
