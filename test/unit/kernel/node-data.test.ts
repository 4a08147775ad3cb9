import { expect, it } from 'vitest';
import { ConnectionError, NodeError, type Session } from '../../../lib/client/index.js';
import { NodeData } from '../../../lib/kernel/node-data.js';

const [first, ours, theirs] = ['first', 'ours', 'theirs'].map((text) => Buffer.from(text));

/** A znode on a server, and what this process knows of it. */
class TestedNode {
  data = first;
  version = 0;
  losesReplies = false;
  readonly known = new NodeData(this as unknown as Session, '/a', this.data!);

  async get() {
    return { data: this.data, stat: { version: this.version } };
  }

  async set(path: string, data: typeof first, version: number) {
    if (version !== this.version) throw new NodeError('BAD_VERSION', path, -103, 'set');
    this.data = data;
    this.version++;
    if (this.losesReplies) throw new ConnectionError('lost');
    return { version: this.version };
  }
}

it('no update overwrites what another process has written', async () => {
  const node = new TestedNode();
  await node.set('/a', theirs, 0);
  // It never rejects, and there is nothing to repeat.
  for (const _ of [1, 2]) expect(await node.known.update(ours!)).toBe(true);
  expect(node.data).toBe(theirs);
});

it('an update after one whose reply was lost has the version that the server has', async () => {
  const node = new TestedNode();
  node.losesReplies = true;
  expect(await node.known.update(ours!)).toBe(false);
  node.losesReplies = false;
  expect(await node.known.update(first!)).toBe(true);
  expect(node.data).toBe(first);
});
