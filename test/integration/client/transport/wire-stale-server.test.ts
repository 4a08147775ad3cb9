import { expect, test } from 'vitest';
import { ConnectionError } from '../../../../lib/client/index.js';
import { connectWire } from '../../../../lib/client/transport/wire-transport.js';
import { useClients } from '../../../support/clients.js';
import { useServer } from '../../../support/servers.js';
import { credentialsOf, recordStates } from '../../../support/sessions.js';

const zk = useServer({ own: true });
const connect = useClients(zk);

test('a client does not attach its session to a server that lags behind its last seen transaction', async () => {
  const client = await connect({ transport: 'wire', sessionTimeout: 20_000 });
  const session = await client.session();
  const { stat } = await client.get(await session.create(zk.path('seen')));
  const log = recordStates(client);
  await zk.restart();
  await log.until('SUSPENDED', 'RECONNECTED');
  // Kept across connections for the next handshake.
  const credentials = credentialsOf(session);
  expect(credentials.lastZxid).toBeGreaterThanOrEqual(stat.czxid);
  await client.close();

  const attach = (lastZxid: number) =>
    connectWire()({
      address: { ip: '127.0.0.1', port: zk.port, host: '127.0.0.1', label: 'zk1' },
      sessionTimeout: 4000,
      authInfo: [],
      credentials: { id: '0', password: '00'.repeat(16), lastZxid },
      signal: AbortSignal.timeout(5000),
      listener: { onWatch: () => {}, onDown: () => {} },
    });
  await expect(attach(2 ** 52)).rejects.toBeInstanceOf(ConnectionError);
  await expect(attach(2 ** 52)).rejects.toThrow('the connection broke');
  // As if the client had seen a later transaction on another server; this server works otherwise.
  await expect(attach(stat.czxid)).rejects.toMatchObject({ code: 'SESSION_EXPIRED' });
});
