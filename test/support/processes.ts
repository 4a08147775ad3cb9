import { existsSync, readFileSync } from 'node:fs';

// Reads /proc, so these functions work on Linux only.

export function childrenOf(pid: number): number[] {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8');
  return children.split(' ').filter(Boolean).map(Number);
}

/** Returns those of the processes that still run. */
export function running(pids: readonly number[]): number[] {
  return pids.filter((pid) => existsSync(`/proc/${pid}`));
}
