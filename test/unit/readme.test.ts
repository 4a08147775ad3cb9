import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';

const read = (file: string) => readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8');

const english = read('README.md');
const chinese = read('README.zh-CN.md');

const matches = (text: string, pattern: RegExp) =>
  [...text.matchAll(pattern)].map(([, group]) => group!);

/** The files and addresses that a page links to. A Chinese page counts as its English original. */
const linksOf = (text: string) =>
  [...new Set(matches(text, /\]\(([^)\s#]+)/g))]
    .map((target) => target.replace('docs/zh/', 'docs/'))
    .filter((target) => !/^README(\.zh-CN)?\.md$/.test(target))
    .sort();

/** The levels of the headings. */
const headingsOf = (text: string) => matches(text, /^(#+) /gm);

const codeOf = (text: string) => matches(text, /^```\w+\n(.*?)^```$/gms);

const figuresOf = (text: string) => matches(text, /(?<=\| +)([\d,]+)(?= +\|)/g);

describe('README.md', () => {
  it('has at most 150 lines', () => {
    expect(english.trimEnd().split('\n').length).toBeLessThanOrEqual(150);
  });

  it('has the figures of docs/performance.md', () => {
    const measured = figuresOf(read('docs/performance.md'));
    expect(figuresOf(english).length).toBeGreaterThan(0);
    expect(measured).toEqual(expect.arrayContaining(figuresOf(english)));
  });
});

describe('docs/README.md', () => {
  it('lists each page', () => {
    const files = readdirSync(new URL('../../docs', import.meta.url), { recursive: true });
    const pages = (files as string[]).filter((file) => /^(?!zh\/|README|index).*\.md$/.test(file));
    expect(linksOf(read('docs/README.md'))).toEqual(expect.arrayContaining(pages));
  });
});

describe('README.zh-CN.md', () => {
  it('has the headings, examples, links and figures of README.md', () => {
    expect(headingsOf(chinese)).toEqual(headingsOf(english));
    expect(codeOf(chinese)).toEqual(codeOf(english));
    expect(linksOf(chinese)).toEqual(linksOf(english));
    expect(figuresOf(chinese)).toEqual(figuresOf(english));
  });
});
