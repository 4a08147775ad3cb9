import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { ZkClientOptions } from 'nestjs-zookeeper/recipes';

const PROGRAM = fileURLToPath(new URL('killed-holder.mjs', import.meta.url));

interface HolderOptions extends ZkClientOptions {
  path: string;
  recipe?: 'mutex' | 'waiter' | 'semaphore' | 'latch';
}

/**
 * Runs a process that acquires the lock at a path, by default a mutex, and kills it. Its session is alive until it times
 * out.
 */
export async function killedHolder(
  options: HolderOptions,
): Promise<{ pid: number; session: string }> {
  const child = spawn(process.execPath, [PROGRAM, JSON.stringify(options)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = once(child, 'exit');
  const failed = ended.then(() => {
    throw new Error('the holder ended before it held the lock');
  });
  const [session] = (await Promise.race([once(child.stdout, 'data'), failed])) as [Buffer];
  failed.catch(() => {});
  child.kill('SIGKILL');
  await ended;
  return { pid: child.pid!, session: session.toString() };
}
