import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { afterEach } from 'vitest';

const PROGRAM = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url));

/** The process of a `nestjs-zookeeper server`. */
export interface ServerProcess {
  readonly child: ChildProcess;
  /** What the process has written so far. */
  readonly output: { readonly stdout: string; readonly stderr: string };
  /** The line that `--json` prints, once clients can connect. Rejects with the standard error if the server does not start. */
  readonly started: Promise<{
    host: string;
    port: number;
    connectString: string;
    data: string | null;
  }>;
  /** Resolves when the process has ended. */
  readonly ended: Promise<{
    code: number | null;
    signal: NodeJS.Signals | null;
    stdout: string;
    stderr: string;
  }>;
}

/**
 * Returns a function that starts servers. Those that still run after a test are killed.
 *
 * @param limit a command of the shell before the server's, such as `ulimit -f 1`
 */
export function useServerCommand(limit = ''): (...args: string[]) => ServerProcess {
  const running = new Set<ChildProcess>();
  afterEach(async () => {
    await Promise.all([...running].map((child) => kill(child)));
    running.clear();
  });
  return (...args) => {
    const command = [process.execPath, PROGRAM, 'server', ...args];
    const script = `${limit}\nexec "$@"`;
    const child = spawn('sh', ['-c', script, 'sh', ...command], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    running.add(child);
    const output = { stdout: '', stderr: '' };
    child.stderr.on('data', (chunk: Buffer) => (output.stderr += chunk.toString()));
    const ended = once(child, 'close').then(([code, signal]) => ({ code, signal, ...output }));
    const started = new Promise<Awaited<ServerProcess['started']>>((resolve, reject) => {
      child.stdout.on('data', (chunk: Buffer) => {
        output.stdout += chunk.toString();
        if (output.stdout.startsWith('{') && output.stdout.endsWith('\n')) {
          resolve(JSON.parse(output.stdout));
        }
      });
      void ended.then(({ stderr }) => reject(new Error(stderr)));
    });
    // A test that expects the end does not look at the start.
    started.catch(() => {});
    return { child, output, started, ended };
  };
}

async function kill(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill('SIGKILL');
  await once(child, 'exit');
}
