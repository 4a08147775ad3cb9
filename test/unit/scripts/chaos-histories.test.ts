import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readHistories } from '../../../scripts/chaos/histories.js';

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'histories-'));
});
afterEach(() => rm(directory, { recursive: true }));

describe("the chaos run's histories", () => {
  it('contain the workers that an event concerns; a server fault alone concerns none', async () => {
    const faults = [
      { type: 'fault', kind: 'no-quorum', from: 1, healed: 2, until: 3 },
      { type: 'fault', kind: 'cut', worker: 'w1', from: 1, healed: 2, until: 3 },
    ];
    await writeFile(
      join(directory, 'nemesis.jsonl'),
      faults.map((fault) => `${JSON.stringify(fault)}\n`).join(''),
    );
    const found = readHistories(directory).faults;
    expect(found).toEqual(faults);
    expect(found[0]).not.toHaveProperty('worker');
  });

  it('are read without the incomplete last line of a killed process', async () => {
    const grant = { type: 'granted', id: 'w1.2.1', key: 'till', mode: 'exclusive', count: 1 };
    const line = JSON.stringify({ ...grant, token: '5', held: true, at: 7 });
    await writeFile(join(directory, 'w1-2.jsonl'), `${line}\n{"type":"gran`);
    expect(readHistories(directory).leases).toMatchObject([
      { worker: 'w1', life: 2, token: 5n, granted: 7, ended: Infinity, how: 'open' },
    ]);
  });
});
