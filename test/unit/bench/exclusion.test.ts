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
  key: number;
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
    for (const { token, entered, left, key } of visits) noted.add(token, entered, left, key);
    await noted.save(files[name]);
  }
  return checkExclusion(files);
}

const visit = (token: bigint, entered: number, left: number, key = 0): Visit => {
  return { token, entered, left, key };
};

describe('the exclusion check of the benchmark', () => {
  it.each<[string, Record<string, Visit[]>, string[]]>([
    [
      'accepts holds one after the other with increasing tokens',
      { a: [visit(1n, 1, 2), visit(2n ** 62n, 6, 7)], b: [visit(2n, 2, 5)] },
      [],
    ],
    [
      'reports two holds at the same time',
      { a: [visit(1n, 1, 3)], b: [visit(2n, 2.5, 5)] },
      ['b entered 0.500 ms before a had left'],
    ],
    [
      'reports tokens that increase in another order than the holds',
      { a: [visit(3n, 1, 2)], b: [visit(2n, 3, 4)] },
      ['a entered 3.000 ms before b had left'],
    ],
    [
      'reports a token that was given twice',
      { a: [visit(1n, 1, 2)], b: [visit(1n, 3, 4)] },
      ['token 1 was given to a and to b'],
    ],
    [
      'reports a token that did not increase within a process',
      { a: [visit(2n, 1, 2), visit(2n, 3, 4)] },
      ['a: token 2 came after 2'],
    ],
    [
      'does not compare different keys',
      { a: [visit(5n, 1, 4, 1), visit(1n, 2, 3, 2)], b: [visit(2n, 3, 4, 2)] },
      [],
    ],
  ])('%s', async (_, logs, found) => {
    expect(await check(logs)).toEqual(found);
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
