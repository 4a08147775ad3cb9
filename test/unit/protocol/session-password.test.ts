import { expect, test } from 'vitest';
import { sessionPassword } from '../../../lib/protocol/index.js';

test('a session has the password that a ZooKeeper 3.8 gave to the same session id', () => {
  expect(sessionPassword(0x100000cefc00000n).toString('hex')).toBe(
    'b2802e9857e91960e04fe168f88ad48d',
  );
});
