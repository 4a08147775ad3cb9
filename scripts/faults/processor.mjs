import { readdirSync, readFileSync } from 'node:fs';

/**
 * Returns for how many milliseconds the threads of these processes have been ready to run while no processor
 * was free. Returns 0 on systems other than Linux.
 */
export function waitedForProcessor(pids) {
  let waited = 0;
  for (const pid of pids) {
    try {
      for (const thread of readdirSync(`/proc/${pid}/task`)) {
        const [, nanoseconds] = readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(
          ' ',
        );
        waited += Number(nanoseconds) / 1e6;
      }
    } catch {
      // The process has exited.
    }
  }
  return waited;
}
