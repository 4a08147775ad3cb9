import { readFileSync } from 'node:fs';

// Reads /proc, so these functions work on Linux only.

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
  try {
    return readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ').at(-1)![0];
  } catch {
    return undefined;
  }
}
