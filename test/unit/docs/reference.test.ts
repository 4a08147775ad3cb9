import { describe, expect, it } from 'vitest';
import { optionsWithoutTable } from '../../../scripts/docs/reference/options.js';
import { referenceProblems } from '../../../scripts/docs/reference/pages.js';
import { readSource } from '../../../scripts/docs/reference/source.js';

/** Returns the problems of docs/reference/ after a change of one file of lib/. */
async function problemsAfter(changed: string, change: (text: string) => string): Promise<string[]> {
  let isChanged = false;
  const source = readSource((file, text) => {
    if (file !== changed) return text;
    isChanged = change(text) !== text;
    return change(text);
  });
  expect(isChanged).toBe(true);
  return referenceProblems(source);
}

const OUT_OF_DATE = 'is out of date: run npm run docs:reference';

describe('docs/reference', () => {
  it('has each option, error, metric, channel and log line of the source', async () => {
    expect(await referenceProblems()).toEqual([]);
  });

  it('lacks an error class that is new', async () => {
    const problems = await problemsAfter('lib/recipes/index.ts', (text) =>
      text.concat("export class NewError extends Error { readonly code = 'NEW'; }\n"),
    );
    expect(problems).toEqual([`docs/reference/errors.md ${OUT_OF_DATE}`]);
  });

  it('lacks an option that is new', async () => {
    const problems = await problemsAfter('lib/recipes/lease.ts', (text) =>
      text.replace(
        'export interface AcquireOptions {',
        '$&\n  /** The number of tries. Default 1. */\n  tries?: number;\n',
      ),
    );
    expect(problems).toEqual([`docs/reference/options.md ${OUT_OF_DATE}`]);
  });

  it('lacks the options of a type that is new', async () => {
    const problems = await problemsAfter('lib/recipes/index.ts', (text) =>
      text.concat(
        'export interface NewOptions {\n  /** A name. Default: none. */\n  name?: string;\n}\n',
      ),
    );
    expect(problems).toEqual(['docs/reference/options.md has no table with name of NewOptions']);
  });

  it('lacks options that a table leaves out and no other table has', () => {
    const page = '<!-- generated: options LeaderLatchOptions except CandidateOptions -->';
    const missing = optionsWithoutTable(readSource(), page);
    expect(missing).toContain('priority of LeaderLatchOptions');
    expect(missing).not.toContain('closeMode of LeaderLatchOptions');
  });

  it('reports an option without its default or its unit', async () => {
    const problems = await problemsAfter('lib/client/options.ts', (text) =>
      text.replace('one address, milliseconds; default 5,000.', 'one address.'),
    );
    expect(problems).toContain(
      'the doc comment of ZkClientOptions.connectTimeout does not state its unit',
    );
    expect(problems).toContain(
      'the doc comment of ZkClientOptions.connectTimeout does not state its default',
    );
  });

  it('lacks a metric and an attribute that are new', async () => {
    const problems = await problemsAfter('lib/opentelemetry/metrics.ts', (text) =>
      text.replace("'zookeeper.lock.timeouts'", "'zookeeper.lock.late'"),
    );
    expect(problems).toEqual([
      `docs/reference/metrics.md ${OUT_OF_DATE}`,
      'docs/reference/metrics.md does not name zookeeper.lock.late',
    ]);
  });

  it('lacks a channel that is new', async () => {
    const problems = await problemsAfter('lib/recipes/diagnostics.ts', (text) =>
      text.replace("'nestjs-zookeeper:follow'", "'nestjs-zookeeper:followed'"),
    );
    expect(problems).toEqual([`docs/reference/metrics.md ${OUT_OF_DATE}`]);
  });

  it('lacks a log line that is new, and has one that is gone', async () => {
    const problems = await problemsAfter('lib/zk.log.ts', (text) =>
      text.replace('`leads election ', '`is the leader of election '),
    );
    expect(problems).toEqual([
      expect.stringMatching(
        /has no row for "is the leader of election .* \(log\) of lib\/zk\.log\.ts:/,
      ),
      expect.stringContaining(
        'the page has "leads election "{name}" as {id}, fencing token {token}" (log), which nothing writes',
      ),
    ]);
  });

  it('lacks a log line at another level', async () => {
    const problems = await problemsAfter('lib/zk.connection.ts', (text) =>
      text.replace('this.logger.log(`connecting', 'this.logger.warn(`connecting'),
    );
    expect(problems).toHaveLength(2);
  });
});
