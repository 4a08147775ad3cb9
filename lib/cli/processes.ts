import { readdirSync, readFileSync } from 'node:fs';

/** A process of this machine. */
export interface Process {
  readonly pid: number;
  readonly parent: number;
  readonly group: number;
  /** Clock ticks since the boot. It differs between two processes that have had the same id. */
  readonly start: string;
}

/** Returns the processes that have not ended; undefined on a system without /proc. */
export function listProcesses(): Process[] | undefined {
  try {
    return readdirSync('/proc').flatMap((pid) => (/^\d+$/.test(pid) ? readProcess(pid) : []));
  } catch {
    return undefined;
  }
}

/** Returns those of the processes whose id is `root` or that are among `known`, and their descendants. */
export function descendantsOf(
  root: number | undefined,
  known: readonly Process[],
  processes: readonly Process[],
): Process[] {
  const isKnown = ({ pid, start }: Process) =>
    pid === root || known.some((each) => each.pid === pid && each.start === start);
  const found = new Set(processes.filter(isKnown));
  // A set visits the items that are added meanwhile.
  for (const { pid } of found) {
    for (const each of processes) if (each.parent === pid) found.add(each);
  }
  return [...found];
}

/** Returns no zombie. In a container, process 1 may be a program that does not reap the children of others. */
function readProcess(pid: string): Process[] {
  try {
    // pid (name) state ppid pgrp … start …; the name may contain any character.
    const fields = readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ').at(-1)!.split(' ');
    const [state, parent, group] = fields;
    if (state === 'Z') return [];
    return [{ pid: Number(pid), parent: Number(parent), group: Number(group), start: fields[19]! }];
  } catch {
    // It has ended.
    return [];
  }
}
