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

describe('what the benchmark makes of critical sections', () => {
  it('accepts visits one after the other, under tokens that rise', async () => {
    const a = [
      { token: 1n, entered: 1, left: 2 },
      { token: 2n ** 62n, entered: 6, left: 7 },
    ];
    const b = [{ token: 2n, entered: 2, left: 5 }];
    expect(await check({ a, b })).toEqual([]);
  });

  it('tells of two at a time', async () => {
    const a = [{ token: 1n, entered: 1, left: 3 }];
    const b = [{ token: 2n, entered: 2.5, left: 5 }];
    expect(await check({ a, b })).toEqual(['b entered 0.500 ms before a had left']);
  });

  it('tells of tokens that rise in another order than that of the visits', async () => {
    const a = [{ token: 3n, entered: 1, left: 2 }];
    const b = [{ token: 2n, entered: 3, left: 4 }];
    expect(await check({ a, b })).toEqual(['a entered 3.000 ms before b had left']);
  });

  it('tells of a token that was given out twice', async () => {
    const a = [{ token: 1n, entered: 1, left: 2 }];
    const b = [{ token: 1n, entered: 3, left: 4 }];
    expect(await check({ a, b })).toEqual(['token 1 was given to a and to b']);
  });

  it('tells of a token that did not rise within a process', async () => {
    const a = [
      { token: 2n, entered: 1, left: 2 },
      { token: 2n, entered: 3, left: 4 },
    ];
    expect(await check({ a })).toEqual(['a: token 2 came after 2']);
  });

  it('lets different keys be', async () => {
    const a = [
      { token: 5n, entered: 1, left: 4, key: 1 },
      { token: 1n, entered: 2, left: 3, key: 2 },
    ];
    const b = [{ token: 2n, entered: 3, left: 4, key: 2 }];
    expect(await check({ a, b })).toEqual([]);
  });

  it('sees who is inside together in one process, and reads what that notes', async () => {
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
