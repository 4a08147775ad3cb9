import { BadOptionError } from '../errors.js';
import { loadBinding } from './native-binding.js';
import { connectNative } from './native-transport.js';
import { openTls } from './byte-stream.js';
import type { TlsOptions } from './tls.js';
import type { Connect } from './transport.js';
import { connectWire } from './wire-transport.js';

/**
 * What carries a client's sessions: `'native'`, the C client of the npm package `zookeeper`, or
 * `'wire'`, ZooKeeper's protocol in TypeScript, which needs no compiler and knows TLS.
 *
 * @publicApi
 */
export type TransportName = 'native' | 'wire';

/** What an omitted option means; for whoever runs a program that says nothing of it. */
const VARIABLE = 'NESTJS_ZOOKEEPER_TRANSPORT';

export interface Chosen {
  readonly name: TransportName;
  readonly connect: Connect;
}

let preferred: Promise<TransportName> | undefined;

/**
 * The transport of the name. Without one: wire with TLS, else native where it can be loaded, else
 * wire, with a process warning.
 *
 * @throws BadOptionError where `'native'` cannot be loaded
 */
export async function chooseTransport(
  name: TransportName | undefined,
  tls: TlsOptions | undefined,
): Promise<Chosen> {
  const chosen = name ?? (tls ? 'wire' : await (preferred ??= preference()));
  if (chosen === 'wire') {
    return { name: 'wire', connect: connectWire(tls && openTls(tls)) };
  }
  const cause = await loadFailure();
  if (!cause) return { name: 'native', connect: connectNative };
  const expected = `'wire', or left out, where ${cause.message}`;
  throw new BadOptionError('transport', 'native', expected, { cause });
}

async function preference(): Promise<TransportName> {
  const named = process.env[VARIABLE];
  if (named) return checkTransport(named, VARIABLE);
  const cause = await loadFailure();
  if (!cause) return 'native';
  process.emitWarning(`sessions go over the wire transport: ${cause.message}`, {
    code: 'ZK_WIRE_TRANSPORT',
  });
  return 'wire';
}

export function checkTransport(name: unknown, option = 'transport'): TransportName {
  if (name === 'native' || name === 'wire') return name;
  throw new BadOptionError(option, name, "'native' or 'wire'");
}

async function loadFailure(): Promise<Error | undefined> {
  try {
    await loadBinding();
    return undefined;
  } catch (error) {
    return error as Error;
  }
}
