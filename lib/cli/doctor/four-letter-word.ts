import { connect as connectTcp } from 'node:net';
import { openTls, type TlsOptions } from '../../client/transport/tls.js';
import type { Address } from '../../client/transport/transport.js';

/** Milliseconds. */
const LIMIT = 3000;
/** Characters. A server with many clients has a long answer to `cons`. */
const MAX_ANSWER = 32 * 1024 * 1024;

/** Resolves to the answer to a four-letter word, `''` if there is none. Uses a connection of its own. */
export function fourLetterWord(
  address: Address,
  word: string,
  tls: TlsOptions | undefined,
  signal: AbortSignal,
): Promise<string> {
  return new Promise((resolve) => {
    const { ip: host, port } = address;
    const socket = tls ? openTls(tls)(address) : connectTcp({ host, port });
    const end = () => socket.destroy();
    const timer = setTimeout(end, LIMIT);
    signal.addEventListener('abort', end, { once: true });
    let answer = '';
    socket.on('data', (bytes: Buffer) => {
      answer += bytes.toString('latin1');
      if (answer.length > MAX_ANSWER) end();
    });
    socket.on('error', () => {});
    socket.on('close', () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', end);
      resolve(answer);
    });
    socket.write(word);
    if (signal.aborted) end();
  });
}

/** What `srvr` says about a server. */
export interface SrvrAnswer {
  /** The name of the server and the start of its version. */
  readonly title: string;
  readonly version: string;
  /** `leader`, `follower`, `observer` or `standalone`. */
  readonly mode: string | undefined;
}

const NAMES: Readonly<Record<string, string>> = { Zookeeper: 'ZooKeeper' };

/** Reads the answer to `srvr`. Returns undefined if it is another one. */
export function readSrvr(answer: string): SrvrAnswer | undefined {
  const [, name, version] = /^([\w ]+) version: ([^,\n]+)/.exec(answer) ?? [];
  if (name === undefined || version === undefined) return undefined;
  const number = /\d+(?:\.\d+)*/.exec(version)?.[0] ?? version;
  const mode = /^Mode: (\w+)/m.exec(answer)?.[1];
  return { title: `${NAMES[name] ?? name} ${number}`, version: version.trim(), mode };
}

/**
 * Returns the time at which the server accepted the connection of a session, in milliseconds since 1970 by the server's clock,
 * from the answer to `cons`.
 */
export function connectedAt(answer: string, sessionId: string): number | undefined {
  const connection = answer.split('\n').find((line) => line.includes(`sid=0x${sessionId},`));
  const time = /\best=(\d+)/.exec(connection ?? '')?.[1];
  return time === undefined ? undefined : Number(time);
}
