import { onTestFinished } from 'vitest';
import {
  type AcquireOptions,
  type Deadlock,
  type Lock,
  type MultiLock,
  onDeadlock,
} from 'nestjs-zookeeper/recipes';
import { Gate } from './gate.js';

/** Collects the deadlocks that are reported until the end of the test. */
export function collectDeadlocks(): Deadlock[] {
  const reports: Deadlock[] = [];
  onTestFinished(onDeadlock((deadlock) => reports.push(deadlock)));
  return reports;
}

/** The cycle as sorted `a -> b` pairs: the holder of a waits for b. */
export function edges({ cycle }: Pick<Deadlock, 'cycle'>): string[] {
  return cycle.map(({ key, waitsFor }) => `${key} -> ${waitsFor}`).sort();
}

type Lockable = Pick<Lock, 'withLock'> | Pick<MultiLock, 'withLock'>;

/** A call chain that acquires these locks one inside another. */
interface Nesting {
  readonly locks: readonly Lockable[];
  readonly options?: AcquireOptions;
}

/**
 * Runs the nestings at the same time. Each acquires its second lock after all have acquired their
 * first.
 */
export function runNested(...nestings: Nesting[]): Promise<string>[] {
  let missing = nestings.length;
  const gate = new Gate();
  return nestings.map(({ locks: [first, ...rest], options }) =>
    first!.withLock(async () => {
      if (--missing === 0) gate.open();
      await gate.pass();
      return nested(rest, options);
    }),
  );
}

async function nested(
  [lock, ...rest]: readonly Lockable[],
  options: AcquireOptions | undefined,
): Promise<string> {
  return lock ? lock.withLock(() => nested(rest, options), options) : 'done';
}
