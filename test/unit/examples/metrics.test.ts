import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';

const read = (file: string) => readFileSync(new URL(`../../../${file}`, import.meta.url), 'utf8');

const SUFFIXES: Readonly<Record<string, readonly string[]>> = {
  counter: ['_total'],
  'up-down counter': [''],
  histogram: ['_bucket', '_sum', '_count'],
};

/** Rows of a table, whose first cell is code. */
const rows = (text: string) =>
  [...text.matchAll(/^\| `([^`]+)` +\| (.*) \|$/gm)].map(([, name, rest]) => ({
    name: name!.replaceAll('.', '_'),
    cells: rest!.split('|').map((cell) => cell.trim()),
  }));

const [, metrics, attributes] =
  /<!-- generated: metrics -->([^]*?)<!-- end -->[^]*## Attributes\n([^]*?)\n## /.exec(
    read('docs/reference/metrics.md').replace('The kinds of a grant:', '\n## '),
  )!;
const known = new Set([
  ...rows(metrics!).flatMap(({ name, cells: [kind] }) =>
    SUFFIXES[kind!]!.map((suffix) => name + suffix),
  ),
  ...rows(attributes!).map(({ name }) => name),
]);

describe('docs/reference/metrics.md has each metric and label of', () => {
  it.each(['rules.yml', 'rules.test.yml', 'dashboard.json'])('%s', (file) => {
    const names = read(`examples/prometheus/${file}`).match(/zookeeper_\w+/g)!;
    expect(names.length).toBeGreaterThan(10);
    expect(names.filter((name) => !known.has(name))).toEqual([]);
  });

  it('the library, which the examples use all of', () => {
    const used = ['rules.yml', 'dashboard.json'].map((file) => read(`examples/prometheus/${file}`));
    for (const { name } of rows(metrics!)) expect(used.join()).toContain(name);
  });
});
