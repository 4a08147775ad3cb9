import { connect as connectTcp, isIP, isIPv6 } from 'node:net';
import {
  abortedAfter,
  type Address,
  ConnectionError,
  connectWire,
  CoordinationError,
  type NormalizedOptions,
  onAbort,
  openTls,
  resolveHost,
  type ServerKind,
  UnsafeServerError,
  type ZkClientOptions,
} from '../../client/index.js';
import { withClient } from '../connection.js';

/**
 * - `ok`: nothing to change;
 * - `limit`: it works, with a limit;
 * - `unavailable`: the servers lack an operation that only this recipe needs;
 * - `unsafe`: it is unsafe, or does not work.
 */
export type Status = 'ok' | 'limit' | 'unavailable' | 'unsafe';

export type CheckName =
  | 'server'
  | 'quorum'
  | 'kind'
  | 'timeout'
  | 'rights'
  | 'clock'
  | 'ensemble'
  | 'recipe'
  | 'cleanup'
  | 'incomplete';

/** The result of one check. `doctor --json` prints these fields. */
export interface Check {
  readonly check: CheckName;
  /** A server, a znode, a recipe, or the name of the check. */
  readonly subject: string;
  readonly status: Status;
  /** The finding, and what to change. */
  readonly message: string;
}

/** Characters. */
const MAX_ANSWER = 10_000;

/** A server of the connect string, at one address. */
export interface Server {
  readonly check: Check;
  /** `leader`, `follower`, `observer` or `standalone`, if the server answers `srvr`. */
  readonly role?: string | undefined;
  /** The options of a client that uses this server only. */
  readonly options?: ZkClientOptions;
  /** Absent if the server cannot be used. */
  readonly session?: {
    readonly kind: ServerKind;
    /** The data of `/zookeeper/config`, empty on a server that is alone; undefined if they cannot be read. */
    readonly config: string | undefined;
    /** The granted session timeout, and the shortest one that the server grants, milliseconds. */
    readonly timeout: number;
    readonly shortestTimeout: number;
  };
}

export type UsableServer = Server & Required<Pick<Server, 'options' | 'session'>>;

/** Probes all addresses of all hosts at the same time. */
export async function probeServers(
  normalized: NormalizedOptions,
  options: ZkClientOptions,
  signal: AbortSignal,
): Promise<Server[]> {
  const probed = normalized.hosts.map(async (host): Promise<Server[]> => {
    let addresses: Address[];
    try {
      addresses = await resolveHost(host);
    } catch (error) {
      return [failed(host.label, error)];
    }
    const families = [false, true].map((v6) => {
      const ofFamily = addresses.filter(({ ip }) => isIPv6(ip) === v6);
      return Promise.all(ofFamily.map((each) => probeServer(each, normalized, options, signal)));
    });
    const servers = await Promise.all(families);
    // Both families usually lead to the same servers, and often only one works: `localhost` is ::1, too.
    return servers.find((family) => family.some(({ session }) => session)) ?? servers.flat();
  });
  return (await Promise.all(probed)).flat();
}

async function probeServer(
  address: Address,
  normalized: NormalizedOptions,
  common: ZkClientOptions,
  signal: AbortSignal,
): Promise<Server> {
  const { ip, port, host, label } = address;
  const subject = ip === host ? label : `${label} (${ip})`;
  const { tls } = common;
  const options: ZkClientOptions = {
    ...common,
    connectString: `${isIPv6(ip) ? `[${ip}]` : ip}:${port}`,
    // A certificate is issued for the name.
    tls: tls && !isIP(host) ? { servername: host, ...tls } : tls,
  };
  const answer = await fourLetterWord(address, normalized, signal);
  const version = /^[\w ]+ version: [^,\n]+/.exec(answer)?.[0];
  const role = /^Mode: (\w+)/m.exec(answer)?.[1];
  try {
    const once: ZkClientOptions = { ...options, retry: { type: 'none' } };
    const session = await withClient(once, signal, async (client) => {
      const { timeout } = await client.session();
      const config = await client.get('/zookeeper/config').then(
        ({ data }) => data.toString(),
        () => undefined,
      );
      const shortestTimeout = await shortestTimeoutOf(address, normalized, signal);
      return { kind: client.serverKind!, config, timeout, shortestTimeout };
    });
    const check = checkOf(subject, ...verdictOn(version, role));
    return { check, role, options, session };
  } catch (error) {
    signal.throwIfAborted();
    // A server without a majority says so in its answer. That of an HTTP server is in the error.
    const isKnown = version !== undefined || answer.startsWith('HTTP/');
    return failed(subject, error, isKnown ? undefined : answer.trim().split('\n')[0]);
  }
}

export function verdictOn(version?: string, role?: string): [Status, string] {
  if (version === undefined) {
    return ['ok', 'allow the four-letter word srvr to see the version and the role'];
  }
  if (/^Zookeeper version: (3\.[0-5]|[0-2])\./.test(version)) {
    return ['limit', `${version}: use ZooKeeper 3.6 or later`];
  }
  const text = role === undefined ? version : `${version}, ${role}`;
  if (version.endsWith('-embedded')) {
    return ['limit', `${text}: a server for development, do not use it in production`];
  }
  return ['ok', text];
}

function checkOf(subject: string, status: Status, message: string): Check {
  return { check: 'server', subject, status, message };
}

function failed(subject: string, error: unknown, answer?: string): Server {
  if (!(error instanceof CoordinationError)) throw error;
  // The cause is the failure of the only address.
  const { message } = error.cause instanceof CoordinationError ? error.cause : error;
  const status = error instanceof UnsafeServerError ? 'unsafe' : 'limit';
  return { check: checkOf(subject, status, answer ? `${message}; ${answer}` : message) };
}

/** A client would expect replies within the requested timeout, so this is a bare connection. */
async function shortestTimeoutOf(
  address: Address,
  { tls, authInfo, connectTimeout }: NormalizedOptions,
  signal: AbortSignal,
): Promise<number> {
  const listener = { onWatch() {}, onDown() {} };
  const connect = connectWire(tls && openTls(tls));
  const limit = abortedAfter(connectTimeout, signal);
  const request = { address, sessionTimeout: 1, authInfo, signal: limit, listener };
  const transport = await connect(request).catch((cause: unknown) => {
    throw new ConnectionError(`${address.label}: no second session`, { cause });
  });
  await transport.close();
  return transport.timeout;
}

/** Resolves to the answer to the four-letter word `srvr`, `''` if there is none. */
function fourLetterWord(
  address: Address,
  { tls, connectTimeout }: NormalizedOptions,
  signal: AbortSignal,
): Promise<string> {
  return new Promise((resolve) => {
    const { ip: host, port } = address;
    const socket = tls ? openTls(tls)(address) : connectTcp({ host, port });
    const end = () => socket.destroy();
    const limit = abortedAfter(connectTimeout, signal);
    let answer = '';
    socket.on('data', (bytes: Buffer) => {
      answer += bytes.toString('latin1');
      if (answer.length > MAX_ANSWER) end();
    });
    socket.on('error', () => {});
    socket.on('close', () => resolve(answer));
    socket.write('srvr');
    onAbort(limit, end);
  });
}
