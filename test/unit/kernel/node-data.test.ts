import { expect, it } from 'vitest';
import { NodeError, type Session } from '../../../lib/client/index.js';
import { NodeData } from '../../../lib/kernel/node-data.js';

it('no update overwrites what another process has written', async () => {
  const [ours, theirs] = ['ours', 'theirs'].map((text) => Buffer.from(text));
  let current = { data: theirs, stat: { version: 1 } };
  const session = {
    get: async () => current,
    set: async (path: string, data: typeof theirs, version: number) => {
      if (version !== current.stat.version) throw new NodeError('BAD_VERSION', path, -103, 'set');
      current = { data, stat: { version: version + 1 } };
      return current.stat;
    },
  } as unknown as Session;
  const node = new NodeData(session, '/a', Buffer.alloc(0));
  // It never rejects, and there is nothing to repeat.
  for (const _ of [1, 2]) expect(await node.update(ours!)).toBe(true);
  expect(current.data).toBe(theirs);
});
