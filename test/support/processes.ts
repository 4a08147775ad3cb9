import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';

/** Returns the children of a process. Works on Linux only. */
export function childrenOf(pid: number): number[] {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8');
  return children.split(' ').filter(Boolean).map(Number);
}

/** Returns those of the processes that still run. A zombie does not. */
export function running(pids: readonly number[]): number[] {
  return pids.filter((pid) => !['Z', undefined].includes(stateOf(pid)));
}

/** Returns the state of a process as one letter; undefined if it does not exist. */
function stateOf(pid: number): string | undefined {
  if (!existsSync('/proc/self/stat')) {
    const { error, stdout } = spawnSync('ps', ['-o', 'stat=', '-p', `${pid}`], {
      encoding: 'utf8',
    });
    if (error) throw error;
    return stdout.trim()[0];
  }
  try {
    return readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ').at(-1)![0];
  } catch {
    return undefined;
  }
}
