import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { readHistories } from '../../../scripts/chaos/histories.js';

it("the chaos run's histories are read without the incomplete last line of a killed process", () => {
  const directory = mkdtempSync(join(tmpdir(), 'histories-'));
  const grant = { type: 'granted', id: 'w1.2.1', key: 'till', mode: 'exclusive', count: 1 };
  const line = JSON.stringify({ ...grant, token: '5', held: true, at: 7 });
  writeFileSync(join(directory, 'w1-2.jsonl'), `${line}\n{"type":"gran`);
  // A fault of a server concerns no worker.
  const fault = { type: 'fault', kind: 'no-quorum', from: 1, healed: 2, until: 3 };
  writeFileSync(join(directory, 'nemesis.jsonl'), JSON.stringify(fault) + '\n');
  const { leases, faults } = readHistories(directory);
  expect(leases).toMatchObject([
    { worker: 'w1', life: 2, token: 5n, granted: 7, ended: Infinity, how: 'open' },
  ]);
  expect(faults).toEqual([fault]);
  expect(faults[0]).not.toHaveProperty('worker');
  rmSync(directory, { recursive: true });
});
