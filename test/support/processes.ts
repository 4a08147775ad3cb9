import { existsSync, readFileSync } from 'node:fs';

// By Linux, as it shows them in /proc.

export function childrenOf(pid: number): number[] {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8');
  return children.split(' ').filter(Boolean).map(Number);
}

/** Those of them that still run. */
export function running(pids: readonly number[]): number[] {
  return pids.filter((pid) => existsSync(`/proc/${pid}`));
}
