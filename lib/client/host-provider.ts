import { randomInt } from 'node:crypto';
import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import type { Host } from './connect-string.js';
import { ConnectionError, errorCode } from './errors.js';
import type { Address } from './transport/transport.js';

/** The hosts of the ensemble in rotation. Starts with a random one, so that clients spread over the servers. Counterpart of ZooKeeper's HostProvider. */
export class HostProvider {
  readonly #hosts: Host[];
  #next = 0;

  constructor(hosts: readonly Host[], random: (below: number) => number = randomInt) {
    this.#hosts = shuffled(hosts, random);
  }

  get size(): number {
    return this.#hosts.length;
  }

  /** All hosts, for messages. */
  get label(): string {
    return this.#hosts.map((host) => host.label).join(', ');
  }

  next(): Host {
    return this.#hosts[this.#next++ % this.#hosts.length];
  }
}

/**
 * Resolves the name of a host to its current addresses, in random order.
 *
 * @throws ConnectionError if the name does not resolve
 */
export async function resolveHost({ host, port, label }: Host): Promise<Address[]> {
  if (isIP(host)) return [{ ip: host, port, host, label }];
  try {
    const found = await lookup(host, { all: true });
    return shuffled(found, randomInt).map(({ address: ip }) => ({ ip, port, host, label }));
  } catch (cause) {
    throw new ConnectionError(`${label}: the name does not resolve (${errorCode(cause)})`, {
      cause,
    });
  }
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
