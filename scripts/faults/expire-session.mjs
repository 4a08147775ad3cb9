import { SessionExpiredError } from '../../dist/client/index.js';
import { connectWire } from '../../dist/client/transport/wire-transport.js';

const ATTEMPTS = 20;
const NOBODY = { onWatch() {}, onDown() {} };

/**
 * Ends a session as ZooKeeper's own tests do: attaches to it by id and password from a second
 * connection and closes it there. Its client learns of the expiry when it reconnects.
 */
export async function expireSession(port, credentials) {
  const address = { ip: '127.0.0.1', host: '127.0.0.1', port, label: `127.0.0.1:${port}` };
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    try {
      const transport = await connectWire()({
        address,
        credentials,
        sessionTimeout: 10_000,
        digests: [],
        signal: AbortSignal.timeout(10_000),
        listener: NOBODY,
      });
      // The session's own client may take it away from here before that is answered: then once more.
      await transport.close();
    } catch (error) {
      // Only a session that is not known any more is certain to have ended.
      if (error instanceof SessionExpiredError && attempt > 0) return;
      throw error;
    }
  }
  throw new Error(`session ${credentials.id} did not end`);
}
