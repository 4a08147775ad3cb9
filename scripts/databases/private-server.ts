import { type ChildProcessByStdio } from 'node:child_process';
import { once } from 'node:events';
import { rm } from 'node:fs/promises';
import type { Readable } from 'node:stream';

/** A database server on loopback with its own data directory. */
export interface PrivateServer extends AsyncDisposable {
  readonly url: string;
}

/**
 * Resolves when a server has written `ready` to its log.
 *
 * @param directory is removed when the server has been stopped
 * @throws Error with the log, if the server ends
 */
export async function untilReady(
  server: ChildProcessByStdio<null, null, Readable>,
  ready: string,
  url: string,
  directory: string,
): Promise<PrivateServer> {
  const exited = once(server, 'exit');
  let log = '';
  for await (const chunk of server.stderr.iterator({ destroyOnReturn: false })) {
    log += chunk;
    if (log.includes(ready)) break;
  }
  if (server.exitCode !== null) throw new Error(log);
  server.stderr.resume();
  return {
    url,
    async [Symbol.asyncDispose]() {
      // PostgreSQL waits until its clients have closed their connections, which would emit errors otherwise.
      server.kill('SIGTERM');
      await exited;
      await rm(directory, { recursive: true, force: true });
    },
  };
}
