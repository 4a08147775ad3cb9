import type { Mutation } from './operators.js';

/** A mutation that no user can notice, with the reason. */
interface Equivalent extends Pick<Mutation, 'file' | 'operator' | 'before' | 'after'> {
  readonly why: string;
}

/** Survivors that were read by a person. The score leaves them out. */
const EQUIVALENT: readonly Equivalent[] = [];

export function isEquivalent(mutation: Mutation): boolean {
  const keys = ['file', 'operator', 'before', 'after'] as const;
  return EQUIVALENT.some((each) => keys.every((key) => each[key] === mutation[key]));
}
