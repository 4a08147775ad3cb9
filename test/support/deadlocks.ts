import { onTestFinished } from 'vitest';
import {
  type AcquireOptions,
  type Deadlock,
  type Lock,
  type MultiLock,
  onDeadlock,
} from 'nestjs-zookeeper/recipes';

/** What is told from here to the end of the test. */
export function deadlocksTold(): Deadlock[] {
  const told: Deadlock[] = [];
  onTestFinished(onDeadlock((deadlock) => told.push(deadlock)));
  return told;
}

/** As `a -> b`: who holds a waits for b. In the order of their keys, wherever the cycle was found. */
export function edges({ cycle }: Pick<Deadlock, 'cycle'>): string[] {
  return cycle.map(({ key, waitsFor }) => `${key} -> ${waitsFor}`).sort();
}

type Lockable = Pick<Lock, 'withLock'> | Pick<MultiLock, 'withLock'>;

/** A call chain that takes these one inside of the other; the inner ones once all chains have their first. */
interface Nesting {
  readonly locks: readonly Lockable[];
  readonly options?: AcquireOptions;
}

/** Runs the nestings at the same time: all have their first lock before any asks for its second. */
export function plant(...nestings: Nesting[]): Promise<string>[] {
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

/** Something that happens once. */
export function event(): { readonly promise: Promise<void>; resolve(): void } {
  let resolve!: () => void;
  const promise = new Promise<void>((happen) => (resolve = happen));
  return { promise, resolve };
}
