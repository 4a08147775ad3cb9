import { SessionExpiredError } from '../../dist/client/index.js';
import { connectWire } from '../../dist/client/transport/wire-transport.js';

const ATTEMPTS = 20;
const NO_LISTENER = { onWatch() {}, onDown() {} };

/**
 * Expires a session as ZooKeeper's own tests do: attaches to it by id and password on a second connection
 * and closes it there. Its client learns of the expiry when it reconnects.
 */
export async function expireSession(port, credentials) {
  const address = { ip: '127.0.0.1', host: '127.0.0.1', port, label: `127.0.0.1:${port}` };
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    try {
      const transport = await connectWire()({
        address,
        credentials,
        sessionTimeout: 10_000,
        authInfo: [],
        signal: AbortSignal.timeout(10_000),
        listener: NO_LISTENER,
      });
      // The session's own client may reattach before the close is answered: then try again.
      await transport.close();
    } catch (error) {
      // The session has certainly ended only when the server no longer knows it.
      if (error instanceof SessionExpiredError && attempt > 0) return;
      throw error;
    }
  }
  throw new Error(`session ${credentials.id} did not end after ${ATTEMPTS} attempts`);
}
