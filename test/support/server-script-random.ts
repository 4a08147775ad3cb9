import { CreateFlag, OpCode } from '../../lib/protocol/index.js';
import type { RecordedClient } from './recorded-client.js';
import type { Recorder } from './server-recorder.js';

const PATHS = ['/r', '/r/a', '/r/b', '/r/a/x', '/r/a/y', '/r/b/x', '/q', '/q/a', '/r/a/x/deep'];
const VERSIONS = [-1, -1, -1, 0, 1, 2];
const FLAGS = [
  CreateFlag.persistent,
  CreateFlag.ephemeral,
  CreateFlag.sequential,
  CreateFlag.ephemeralSequential,
];

/** Numbers below 1 that the seed alone decides (mulberry32). */
export function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Three sessions do whatever comes to mind, one after the other; any answer is right that both servers give. */
export async function randomOperations(
  server: Recorder,
  seed: number,
  count: number,
): Promise<void> {
  const random = randomFrom(seed);
  const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)];
  const clients: RecordedClient[] = [];
  for (const name of ['a', 'b', 'c']) clients.push(await server.connect(name));
  for (let i = 0; i < count; i++) {
    const zk = pick(clients);
    const path = pick(PATHS);
    const watch = random() < 0.3;
    const version = pick(VERSIONS);
    const operations: (() => Promise<unknown>)[] = [
      () => zk.create(path, { flags: pick(FLAGS) }, 'any'),
      () => zk.create(path, { flags: pick(FLAGS), op: OpCode.create2 }, 'any'),
      () => zk.create(path, { op: OpCode.createTTL, flags: CreateFlag.ttl, ttl: 2 ** 39 }, 'any'),
      () => zk.set(path, `data ${i}`, version, 'any'),
      () => zk.delete(path, version, 'any'),
      () => zk.exists(path, watch, 'any'),
      () => zk.get(path, watch, 'any'),
      () => zk.children2(path, watch, 'any'),
      () => zk.children(path, watch, 'any'),
      () => zk.getAcl(path, 'any'),
    ];
    await pick(operations)();
  }
  for (const client of clients) await client.ping();
}
