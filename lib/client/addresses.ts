import { randomInt } from 'node:crypto';
import { lookup } from 'node:dns/promises';
import { connect, isIP } from 'node:net';
import type { Host } from './connect-string.js';
import { ConnectionError } from './errors.js';
import type { Address } from './transport.js';

/** The ensemble's hosts, in random order so that clients spread, and then one after the other. */
export class HostRing {
  readonly #hosts: Host[];
  #next = 0;

  constructor(hosts: readonly Host[], random: (below: number) => number = randomInt) {
    this.#hosts = shuffled(hosts, random);
  }

  get size(): number {
    return this.#hosts.length;
  }

  get label(): string {
    return this.#hosts.map((host) => host.label).join(', ');
  }

  next(): Host {
    const host = this.#hosts[this.#next % this.#hosts.length];
    this.#next++;
    return host;
  }
}

/** A host's addresses as of now. Resolved here because the native client would ask after every reply. */
export async function resolve({ host, port, label }: Host): Promise<Address[]> {
  if (isIP(host)) return [{ ip: host, port, host, label }];
  try {
    const found = await lookup(host, { all: true });
    return shuffled(found, randomInt).map(({ address: ip }) => ({ ip, port, host, label }));
  } catch (cause) {
    throw new ConnectionError(`${label}: the name does not resolve (${codeOf(cause)})`, { cause });
  }
}

/**
 * Whether anything listens there: the native client says nothing at all about a connection that fails.
 * The probe's socket is closed altogether when this resolves.
 */
export function probe(address: Address, signal: AbortSignal): Promise<void> {
  return new Promise((done, fail) => {
    if (signal.aborted) return fail(signal.reason);
    const socket = connect({ host: address.ip, port: address.port });
    let failure: unknown;
    const abort = () => socket.destroy(signal.reason);
    signal.addEventListener('abort', abort, { once: true });
    socket.on('connect', () => socket.destroy());
    socket.on('error', (error) => (failure = error));
    socket.on('close', () => {
      signal.removeEventListener('abort', abort);
      if (signal.aborted) return fail(signal.reason);
      if (failure === undefined) return setImmediate(done);
      fail(unreachable(address, failure));
    });
  });
}

export function unreachable({ label, ip }: Address, cause: unknown): ConnectionError {
  return new ConnectionError(`${label}: no connection to ${ip} (${codeOf(cause)})`, { cause });
}

function codeOf(error: unknown): string {
  const { code } = error as NodeJS.ErrnoException;
  return code ?? String(error);
}

/** @param random returns a whole number from 0 up to, but not including, `below` */
function shuffled<T>(items: readonly T[], random: (below: number) => number): T[] {
  const result = [...items];
  for (let last = result.length - 1; last > 0; last--) {
    const other = random(last + 1);
    [result[last], result[other]] = [result[other], result[last]];
  }
  return result;
}
