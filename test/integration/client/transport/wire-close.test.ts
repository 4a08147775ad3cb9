import { expect, test } from 'vitest';
import { useClients } from '../../../support/clients.js';
import { useServer } from '../../../support/servers.js';

const zk = useServer({ own: true });
const connect = useClients(zk);

test.runIf(zk.kind === 'real')(
  'close() during a pause of the server: the server ends the session when it continues',
  async () => {
    const observer = await connect({ sessionTimeout: 20_000 });
    const client = await connect({ transport: 'wire', sessionTimeout: 20_000 });
    const node = await client.create(zk.path('closed'), '', { mode: 'ephemeral' });
    const { watch } = await observer.watch(node);
    process.kill(zk.pid!, 'SIGSTOP');
    try {
      const started = performance.now();
      await client.close();
      expect(performance.now() - started).toBeLessThan(8_000);
    } finally {
      process.kill(zk.pid!, 'SIGCONT');
    }
    const continued = performance.now();
    expect(await watch.fired).toBe('deleted');
    expect(performance.now() - continued).toBeLessThan(8_000);
  },
);
