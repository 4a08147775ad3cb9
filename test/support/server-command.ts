import { PROGRAM, type CliProcess, useCli } from './cli.js';

/** The process of a `nestjs-zookeeper server`. */
export interface ServerProcess extends CliProcess {
  /** The line that `--json` prints, once clients can connect. Rejects with the standard error if the server does not start. */
  readonly started: Promise<{
    host: string;
    port: number;
    connectString: string;
    data: string | null;
  }>;
}

/**
 * Returns a function that starts servers. Those that still run after a test are killed.
 *
 * @param limit a command of the shell before the server's, such as `ulimit -f 1`
 */
export function useServerCommand(limit = ''): (...args: string[]) => ServerProcess {
  const cli = useCli({ connectString: '' });
  return (...args) => {
    const command = [process.execPath, PROGRAM, 'server', ...args];
    const server = cli.program('sh', ['-c', `${limit}\nexec "$@"`, 'sh', ...command]);
    const { child, output, ended } = server;
    const started = new Promise<Awaited<ServerProcess['started']>>((resolve, reject) => {
      child.stdout!.on('data', () => {
        if (/^\{.*\n$/.test(output.out)) resolve(JSON.parse(output.out));
      });
      void ended.then(({ err }) => reject(new Error(err)));
    });
    // A test that awaits only `ended` leaves `started` unhandled.
    started.catch(() => {});
    return { ...server, started };
  };
}
