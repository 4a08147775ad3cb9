import { AsyncLocalStorage } from 'node:async_hooks';
import type { Holding } from '../services/holding.js';
import type { MethodSpec } from './method-spec.js';

/** What a call of a method holds by its upper decorators, for the lower ones of the same method. */
interface HeldAbove {
  readonly below: readonly MethodSpec[];
  readonly holdings: readonly Holding[];
}

const present = new AsyncLocalStorage<HeldAbove>();

/** Runs what stands below one of a method's decorators, as the holder of what that one holds. */
export function runBelow<T>(
  spec: MethodSpec,
  below: readonly MethodSpec[],
  holding: Holding,
  fn: () => T,
): T {
  const holdings = [...heldAbove(spec), holding];
  return present.run({ below, holdings }, () => holding.run(fn));
}

/** @throws what was lost above while this decorator waited: the method must not begin without it */
export function checkAbove(spec: MethodSpec): void {
  for (const { signal } of heldAbove(spec)) signal.throwIfAborted();
}

function heldAbove(spec: MethodSpec): readonly Holding[] {
  const held = present.getStore();
  return held?.below.includes(spec) ? held.holdings : [];
}
