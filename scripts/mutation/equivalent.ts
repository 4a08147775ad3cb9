import type { Mutation } from './operators.js';

/** A mutation that no user can notice, with the reason. */
interface Equivalent extends Pick<Mutation, 'file' | 'code' | 'operator' | 'before' | 'after'> {
  readonly why: string;
}

/** Survivors that were read by a person. The score leaves them out. */
export const EQUIVALENT: readonly Equivalent[] = [
  {
    file: 'lib/recipes/internals/handover-budget.ts',
    code: 'return now < this.end ? undefined : this.yielding;',
    operator: 'other comparison',
    before: '<',
    after: '<=',
    why: 'The callers let the event loop run after the end of the slice instead of at its end.',
  },
];

export function isEquivalent(mutation: Mutation): boolean {
  const keys = ['file', 'code', 'operator', 'before', 'after'] as const;
  return EQUIVALENT.some((each) => keys.every((key) => each[key] === mutation[key]));
}
