import { readdirSync, readFileSync } from 'node:fs';

/**
 * For how many milliseconds threads of these processes were ready to run so far while no processor was
 * free. Linux tells, other systems do not: 0.
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
      // One that is gone meanwhile.
    }
  }
  return waited;
}
