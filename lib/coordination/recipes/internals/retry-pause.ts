import { sleep, type ZkClient } from '../../../client/index.js';

/** Milliseconds between a failure and the next attempt. */
export const RETRY_AFTER = 1000;
/** Milliseconds between two reads of a znode that the credentials of the client may not read. */
export const RETRY_REFUSED_AFTER = 30_000;

/** Resolves after {@link RETRY_AFTER}, or earlier when the connection state changes or `signal` aborts. */
export async function retryPause(client: ZkClient, signal: AbortSignal): Promise<void> {
  const until = (wake: () => void) => client.onState(wake);
  // It rejects only by the signal, which the callers check.
  await sleep(RETRY_AFTER, { signals: [signal], until }).catch(() => {});
}
