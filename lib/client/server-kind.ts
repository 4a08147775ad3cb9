import { ErrorCode, sessionPassword } from '../protocol/index.js';
import { ConnectionError, UnsafeServerError } from './errors.js';
import { attachmentError } from './reply-errors.js';
import type { Transport } from './transport/transport.js';

/**
 * The kind of a server, as the client recognizes it:
 *
 * - `'zookeeper'`: Apache ZooKeeper;
 * - `'clickhouse-keeper'`: ClickHouse Keeper since 23.6;
 * - `'raftkeeper'`: RaftKeeper, whose transaction ids may fall, so that fencing tokens are unsafe; or an older ClickHouse
 *   Keeper, which looks the same;
 * - `'unknown'`: another server, which is used like ClickHouse Keeper.
 *
 * @publicApi
 */
export type ServerKind = 'zookeeper' | 'clickhouse-keeper' | 'raftkeeper' | 'unknown';

const NO_PASSWORD = Buffer.alloc(16);

/** A znode of ClickHouse Keeper since 23.6. */
const FEATURE_FLAGS = '/keeper/feature_flags';

/**
 * Resolves to the kind of the server of a new connection. Apache ZooKeeper computes the password of a session from its id;
 * ClickHouse Keeper and RaftKeeper give zeros. One request then distinguishes these two: of them, only ClickHouse Keeper has
 * the znode of the feature flags. If the promise rejects, the connection is closed.
 *
 * @throws UnsafeServerError unless `allowUnsafeFencing`; ConnectionError, or the signal's reason
 */
export async function identifyServer(
  transport: Transport,
  allowUnsafeFencing: boolean,
  signal: AbortSignal,
): Promise<ServerKind> {
  const { id } = transport.credentials;
  const password = Buffer.from(transport.credentials.password, 'hex');
  if (password.equals(sessionPassword(BigInt(`0x${id}`)))) return 'zookeeper';
  if (!password.equals(NO_PASSWORD)) return 'unknown';
  const abort = () => transport.destroy();
  signal.addEventListener('abort', abort, { once: true });
  try {
    if (await hasNode(transport, FEATURE_FLAGS)) return 'clickhouse-keeper';
    if (allowUnsafeFencing) return 'raftkeeper';
    throw new UnsafeServerError(transport.server);
  } catch (error) {
    if (error instanceof UnsafeServerError) void transport.close();
    else transport.destroy();
    signal.throwIfAborted();
    throw error;
  } finally {
    signal.removeEventListener('abort', abort);
  }
}

function hasNode(transport: Transport, path: string): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const sent = transport.exists(path, false, (code) => {
      if (code === ErrorCode.ok || code === ErrorCode.noNode) resolve(code === ErrorCode.ok);
      else reject(attachmentError(code, 'exists', path));
    });
    if (!sent) reject(new ConnectionError('the connection broke right after it was established'));
  });
}
