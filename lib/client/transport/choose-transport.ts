import { typedChannel, WIRE_FALLBACK_CHANNEL, type WireFallbackMessage } from '../diagnostics.js';
import { BadOptionError } from '../errors.js';
import { isSimulated } from '../process-state.js';
import type { Acl } from '../types.js';
import { loadBinding } from './native-binding.js';
import { connectNative } from './native-transport.js';
import type { LoadMechanism } from './sasl/options.js';
import { openTls, type TlsOptions } from './tls.js';
import type { Connect } from './transport.js';
import { connectWire } from './wire-transport.js';

/**
 * The implementation of a client's connections: `'native'`, the C client of the npm package `zookeeper`,
 * or `'wire'`, ZooKeeper's protocol in TypeScript, which needs no compiler and supports TLS.
 *
 * @publicApi
 */
export type TransportName = 'native' | 'wire';

/** The environment variable with the default of the option `transport`. */
const VARIABLE = 'NESTJS_ZOOKEEPER_TRANSPORT';

export interface ChosenTransport {
  readonly name: TransportName;
  readonly connect: Connect;
}

let defaultName: Promise<TransportName> | undefined;

/**
 * Returns the transport of that name. Without a name: wire if there are TLS or SASL options or an ACL; else the one that the
 * environment variable NESTJS_ZOOKEEPER_TRANSPORT names; else native if its package can be loaded; else wire, with a
 * message for the log, or a process warning if nobody logs it.
 *
 * @throws BadOptionError if `'native'` is given and its package cannot be loaded; Error in a simulated process, whose
 *   clients get their connections from the simulation
 */
export async function chooseTransport(
  name: TransportName | undefined,
  tls: TlsOptions | undefined,
  sasl: LoadMechanism | undefined,
  acl?: readonly Acl[],
): Promise<ChosenTransport> {
  if (isSimulated()) {
    throw new Error(
      'a simulated process cannot connect to real servers; connect a ZkModule by process.override(), and get a ZkClient from process.client()',
    );
  }
  const chosen = name ?? (tls || sasl || acl ? 'wire' : await (defaultName ??= findDefault()));
  if (chosen === 'wire') {
    return { name: 'wire', connect: connectWire(tls && openTls(tls), await sasl?.()) };
  }
  const cause = await loadFailure();
  if (!cause) return { name: 'native', connect: connectNative };
  const expected = `'wire', or left out, because ${cause.message}`;
  throw new BadOptionError('transport', 'native', expected, { cause });
}

async function findDefault(): Promise<TransportName> {
  const named = process.env[VARIABLE];
  if (named) return checkTransport(named, VARIABLE);
  const cause = await loadFailure();
  if (!cause) return 'native';
  const message = `the wire transport is used, because ${cause.message}; set transport: 'wire' to choose it without this message`;
  const fallback: WireFallbackMessage = { message, logged: false };
  typedChannel<WireFallbackMessage>(WIRE_FALLBACK_CHANNEL).publish(fallback);
  if (!fallback.logged) process.emitWarning(message, { code: 'ZK_WIRE_TRANSPORT' });
  return 'wire';
}

export function checkTransport(name: unknown, option = 'transport'): TransportName {
  if (name === 'native' || name === 'wire') return name;
  throw new BadOptionError(option, name, "'native' or 'wire'");
}

/** Resolves to the error of loading the native client; undefined if it can be used. */
function loadFailure(): Promise<Error | undefined> {
  return loadBinding().then(
    () => undefined,
    (error: Error) => error,
  );
}
