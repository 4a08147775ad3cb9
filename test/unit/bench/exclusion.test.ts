import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { checkExclusion } from '../../../scripts/bench/exclusion.js';
import { Sections } from '../../../scripts/bench/workers/section.js';
import { Visits } from '../../../scripts/bench/workers/visits.js';

interface Visit {
  token: bigint;
  entered: number;
  left: number;
  key?: number;
}

let directory: string;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'exclusion-'));
});

afterAll(() => rm(directory, { recursive: true }));

async function check(logs: Record<string, Visit[]>): Promise<string[]> {
  const files: Record<string, string> = {};
  for (const [name, visits] of Object.entries(logs)) {
    files[name] = join(directory, name);
    const noted = new Visits();
    for (const { token, entered, left, key = 0 } of visits) noted.add(token, entered, left, key);
    await noted.save(files[name]);
  }
  return checkExclusion(files);
}

describe('the exclusion check of the benchmark', () => {
  it('accepts holds one after the other with increasing tokens', async () => {
    const a = [
      { token: 1n, entered: 1, left: 2 },
      { token: 2n ** 62n, entered: 6, left: 7 },
    ];
    const b = [{ token: 2n, entered: 2, left: 5 }];
    expect(await check({ a, b })).toEqual([]);
  });

  it('reports two holds at the same time', async () => {
    const a = [{ token: 1n, entered: 1, left: 3 }];
    const b = [{ token: 2n, entered: 2.5, left: 5 }];
    expect(await check({ a, b })).toEqual(['b entered 0.500 ms before a had left']);
  });

  it('reports tokens that increase in another order than the holds', async () => {
    const a = [{ token: 3n, entered: 1, left: 2 }];
    const b = [{ token: 2n, entered: 3, left: 4 }];
    expect(await check({ a, b })).toEqual(['a entered 3.000 ms before b had left']);
  });

  it('reports a token that was given twice', async () => {
    const a = [{ token: 1n, entered: 1, left: 2 }];
    const b = [{ token: 1n, entered: 3, left: 4 }];
    expect(await check({ a, b })).toEqual(['token 1 was given to a and to b']);
  });

  it('reports a token that did not increase within a process', async () => {
    const a = [
      { token: 2n, entered: 1, left: 2 },
      { token: 2n, entered: 3, left: 4 },
    ];
    expect(await check({ a })).toEqual(['a: token 2 came after 2']);
  });

  it('does not compare different keys', async () => {
    const a = [
      { token: 5n, entered: 1, left: 4, key: 1 },
      { token: 1n, entered: 2, left: 3, key: 2 },
    ];
    const b = [{ token: 2n, entered: 3, left: 4, key: 2 }];
    expect(await check({ a, b })).toEqual([]);
  });

  it('counts the holders in one process, and reads what the counter noted', async () => {
    const file = join(directory, 'noted');
    const sections = new Sections(1, file);
    await sections.visit(0, 1, 1n);
    expect(sections.violations).toBe(0);
    await Promise.all([sections.visit(0, 1, 2n), sections.visit(1, 1, 3n)]);
    expect(sections.violations).toBe(0);
    await Promise.all([sections.visit(0, 1, 5n), sections.visit(0, 1, 4n)]);
    expect(sections.violations).toBe(1);
    await sections.save();
    expect(await checkExclusion({ noted: file })).toEqual(['noted: token 4 came after 5']);
  });
});
