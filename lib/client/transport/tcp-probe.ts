import { once } from 'node:events';
import { connect as connectTcp } from 'node:net';
import { setImmediate } from 'node:timers';
import { type Address, allFailed, unreachableError } from './transport.js';

/**
 * Resolves if a TCP connection to the address succeeds, after that connection is closed.
 *
 * @throws ConnectionError if it fails, or the signal's reason
 */
export async function probe(address: Address, signal: AbortSignal): Promise<void> {
  const socket = connectTcp({ host: address.ip, port: address.port, signal });
  try {
    await once(socket, 'connect');
  } catch (error) {
    signal.throwIfAborted();
    throw unreachableError(address, error);
  } finally {
    socket.destroy();
    if (!socket.closed) await once(socket, 'close');
  }
  await new Promise((resolve) => setImmediate(resolve));
}

/** Milliseconds until the next address is tried while the earlier attempts are pending: RFC 8305's "Connection Attempt Delay". */
const ATTEMPT_DELAY = 250;

/**
 * Resolves to the first address to which a TCP connection succeeds. The attempts start in the given order, each one
 * 250 ms after the one before it or as soon as that one failed (Happy Eyeballs, RFC 8305).
 *
 * @throws ConnectionError if all fail, or the signal's reason
 */
export function firstReachable(
  addresses: readonly Address[],
  signal: AbortSignal,
): Promise<Address> {
  return new Promise((resolve, reject) => {
    const attempts = new AbortController();
    const cancel = () => attempts.abort(signal.reason);
    signal.addEventListener('abort', cancel, { once: true });
    const failures: Error[] = [];
    let started = 0;
    let over = false;
    let timer: NodeJS.Timeout | undefined;
    const end = () => {
      over = true;
      clearTimeout(timer);
      signal.removeEventListener('abort', cancel);
      attempts.abort();
    };
    const fail = (failure: Error) => {
      if (over) return;
      failures.push(failure);
      if (!signal.aborted && failures.length < addresses.length) return startNext();
      end();
      reject(signal.aborted ? signal.reason : allFailed(failures));
    };
    const startNext = () => {
      clearTimeout(timer);
      const address = addresses[started];
      if (!address) return;
      started++;
      timer = setTimeout(startNext, ATTEMPT_DELAY);
      probe(address, attempts.signal).then(() => {
        end();
        resolve(address);
      }, fail);
    };
    startNext();
  });
}
