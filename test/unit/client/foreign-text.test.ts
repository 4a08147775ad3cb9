import { expect, test } from 'vitest';
import { LockBusyError } from 'nestjs-zookeeper/recipes';
import { foreignText } from '../../../lib/client/errors.js';

test.each<[what: string, value: unknown, expected: string]>([
  ['a name', 'web-1', 'web-1'],
  ['other languages', '订单 → é', '订单 → é'],
  ['a forged line', 'x\nERROR forged', 'x ERROR forged'],
  ['escape sequences', 'a\r\u001b[2J\u009b2J\u0000', 'a??[2J?2J?'],
  ['invisible characters', 'left\u202eright\u2028\u200b', 'left?right??'],
  ['an object that has no text', { toString: 1 }, '[object Object]'],
  ['a long text', 'A'.repeat(900_000), `${'A'.repeat(200)}…`],
  ['a text that is cut inside a character', `${'A'.repeat(199)}😀`, `${'A'.repeat(199)}?…`],
])(
  'foreignText() returns one short line without control characters for %s',
  (_, value, expected) => {
    expect(foreignText(value)).toBe(expected);
  },
);

test('the message of an error is one short line without control characters, whatever text it contains', () => {
  const { message } = new LockBusyError(`lock "a\u001b[2J\nb" ${'x'.repeat(900_000)}`);
  expect(message).toMatch(/^lock "a\?\[2J b" x+…$/);
  expect(message.length).toBeLessThan(10_000);
});
