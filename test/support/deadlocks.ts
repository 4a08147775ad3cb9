import { onTestFinished } from 'vitest';
import {
  type AcquireOptions,
  type Deadlock,
  type Lock,
  type MultiLock,
  onDeadlock,
} from 'nestjs-zookeeper/recipes';

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
  let ready!: () => void;
  const all = new Promise<void>((resolve) => (ready = resolve));
  return nestings.map(({ locks: [first, ...rest], options }) =>
    first!.withLock(async () => {
      if (--missing === 0) ready();
      await all;
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

/** A promise and the function that resolves it. */
export function deferred(): { readonly promise: Promise<void>; resolve(): void } {
  let resolve!: () => void;
  const promise = new Promise<void>((happen) => (resolve = happen));
  return { promise, resolve };
}
