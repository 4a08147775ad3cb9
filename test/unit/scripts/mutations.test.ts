import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { EQUIVALENT } from '../../../scripts/mutation/equivalent.js';
import { mutationsOf } from '../../../scripts/mutation/operators.js';

/** Returns the changed code after each mutation of a statement. */
const mutationsIn = (code: string) =>
  mutationsOf('a.ts', code).map(({ operator, mutated }) => [operator, mutated]);

describe('mutations', () => {
  it('negates the condition of a guard and removes the guard', () => {
    expect(mutationsIn('if (a) return;')).toEqual([
      ['negated condition', 'if (!(a)) return;'],
      ['dropped statement', 'if (a) ;'],
    ]);
  });

  it('keeps one operand of a conjunction, a disjunction or a default', () => {
    for (const operator of ['&&', '||', '??']) {
      expect(mutationsIn(`const x = a ${operator} b;`)).toEqual([
        ['dropped operand', 'const x = (a);'],
        ['dropped operand', 'const x = (b);'],
      ]);
    }
  });

  it.each([
    ['a < b', 'a <= b'],
    ['a <= b', 'a < b'],
    ['a > b', 'a >= b'],
    ['a >= b', 'a > b'],
    ['a === b', 'a !== b'],
    ['a !== b', 'a === b'],
    ['a + b', 'a - b'],
    ['a - b', 'a + b'],
    ['a * b', 'a / b'],
    ['a / b', 'a * b'],
    ['true', 'false'],
    ['false', 'true'],
    ['await a', 'a'],
  ])('turns %s into %s', (before, after) => {
    expect(mutationsIn(`const x = ${before};`).map(([, mutated]) => mutated)).toEqual([
      `const x = ${after};`,
    ]);
  });

  it('leaves out types, texts that are joined and the call of super', () => {
    expect(mutationsIn("let x: true | false = y as true; const z = 'a' + b;")).toEqual([]);
    expect(mutationsIn('class A extends B { constructor() { super(); } }')).toEqual([]);
  });

  it('has the line and the replaced code', () => {
    const [mutation] = mutationsOf('a.ts', 'f(1);\n  f(a > 1);').filter(
      ({ operator }) => operator === 'other comparison',
    );
    expect(mutation).toMatchObject({
      ...{ file: 'a.ts', line: 2, code: 'f(a > 1);' },
      ...{ before: '>', after: '>=' },
    });
  });
});

describe('equivalent mutations', () => {
  it('are places of the current source', () => {
    for (const { file, why, ...place } of EQUIVALENT) {
      expect(mutationsOf(file, readFileSync(file, 'utf8'))).toContainEqual(
        expect.objectContaining(place),
      );
      expect(why).toMatch(/\.$/);
    }
  });
});
