import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import type { ChildProcess } from 'node:child_process';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Instance } from '../../../sample-app/seckill/instances.js';
import { defaults } from '../../../sample-app/shop/settings.js';

/** Closes the channel to its parent at the signal, as the channel of a process that dies does, and ends at the next one. */
const PROGRAM = `
// Neither a channel without a listener nor a handler of signals keeps a process running.
setInterval(() => undefined, 60_000);
process.once('SIGUSR2', () => {
  process.disconnect();
  process.once('SIGUSR2', () => process.exit());
});
process.send({ url: 'http://127.0.0.1' });
`;

describe('an instance whose channel is closed but whose exit was not reported yet', () => {
  let directory: string;
  let instance: Instance;

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'instances-'));
    const entry = join(directory, 'entry.mjs');
    await writeFile(entry, PROGRAM);
    instance = await Instance.start({ ...defaults, database: '' }, { entry });
    const { child } = instance as unknown as { child: ChildProcess };
    const disconnected = once(child, 'disconnect');
    process.kill(instance.pid, 'SIGUSR2');
    await disconnected;
  });

  afterEach(async () => {
    instance.kill();
    await rm(directory, { recursive: true });
  });

  it('ignores new settings', async () => {
    instance.updateSettings({ delay: [0, 1] });
    instance.updateSettings({ delay: [0, 2] });
    // An error of the channel is emitted in a later turn.
    await new Promise(setImmediate);
    expect(instance.alive).toBe(true);
  });

  it('can be stopped', async () => {
    const stopped = instance.stop();
    process.kill(instance.pid, 'SIGUSR2');
    await stopped;
    expect(instance.alive).toBe(false);
  });
});
