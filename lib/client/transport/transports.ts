import { BadOptionError } from '../errors.js';
import { isSimulated } from '../process-state.js';
import { loadBinding } from './native-binding.js';
import { connectNative } from './native-transport.js';
import type { LoadMechanism } from './sasl/options.js';
import { openTls, type TlsOptions } from './tls.js';
import type { Connect } from './transport.js';
import { connectWire } from './wire-transport.js';

/**
 * The implementation of a client's connections: `'wire'`, ZooKeeper's protocol in TypeScript, or `'native'`, ZooKeeper's C
 * client, which needs the npm package `zookeeper`.
 *
 * @publicApi
 */
export type TransportName = 'wire' | 'native';

/** @throws BadOptionError */
export function checkTransport(name: unknown): TransportName {
  if (name === 'wire' || name === 'native') return name;
  throw new BadOptionError('transport', name, "'wire' or 'native'");
}

/**
 * Loads what a transport needs.
 *
 * @throws BadOptionError if the npm package `zookeeper` or `kerberos` is needed and cannot be loaded; Error in a simulated
 *   process, whose clients get their connections from the simulation
 */
export async function loadTransport(
  name: TransportName,
  tls: TlsOptions | undefined,
  sasl: LoadMechanism | undefined,
): Promise<Connect> {
  if (isSimulated()) {
    throw new Error(
      'a simulated process cannot connect to real servers; connect a ZkModule by process.override(), and get a ZkClient from process.client()',
    );
  }
  if (name === 'wire') return connectWire(tls && openTls(tls), await sasl?.());
  return connectNative(loadBinding());
}
