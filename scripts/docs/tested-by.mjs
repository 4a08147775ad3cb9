import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '../packed.mjs';

/** The pages on which each section names its tests. Those of docs/reference/ are generated, or are tables. */
const PAGES =
  /^docs\/(?:(?:introduction|faq|reliability)\.md|(?:guides|operations|migrating|internals)\/)/;
/** The words that docs/ may have without the pages that are generated, translated or only figures. */
export const WORDS = 32_000;
const UNCOUNTED = /^docs\/(?:reference\/|zh\/|evidence\/benchmark\.md$)/;

/** The comment at the end of a section. The site shows the tests, GitHub does not. */
const AT_END = /<!-- (?:No claim|Tested by\s+([^>]+?)) -->$/;
const FENCE = /^ *```.*?^ *```$/gms;

/** @typedef {{ name: string; text: string }} Page */

/**
 * Returns the sections of a page that name no test, and the tests that do not exist.
 *
 * @param {Page} page
 */
export function testProblems({ name, text }) {
  if (!PAGES.test(name)) return [];
  const prose = text.replace(FENCE, '');
  return prose.split(/^(?=## )/m).flatMap((section) => {
    const title = /^#+ (.+)$/m.exec(section)?.[1];
    const end = AT_END.exec(section.trimEnd());
    if (!end) return [`${name} names no test at the end of the section "${title}"`];
    const entries = end[1]?.split(/,\s+/) ?? [];
    return entries
      .map((entry) => entry.replace(/\s+/g, ' '))
      .filter((entry) => !exists(entry))
      .map((entry) => `${name} names the test ${entry}, which does not exist`);
  });
}

/**
 * Returns the commands of npm and of `npx nestjs-zookeeper` that a page names and that do not exist.
 *
 * @param {Page} page
 */
export function unknownCommands({ name, text }) {
  return [
    ...text.matchAll(/(npm run|npx nestjs-zookeeper)(?:\s+--?s(?:ilent)?)*\s+([a-z][\w:-]*)/gi),
  ]
    .filter(([, program, command = '']) => !commands(program).includes(command))
    .map(([whole]) => `${name}: there is no command ${whole}`);
}

/**
 * Returns how many words all pages have together, without code, tables and comments.
 *
 * @param {readonly Page[]} all
 */
export function countWords(all) {
  return all
    .filter(({ name }) => name.startsWith('docs/') && !UNCOUNTED.test(name))
    .map(({ text }) =>
      text
        .replace(/^---\n.*?^---\n/ms, '')
        .replace(FENCE, '')
        .replace(/^\|.*$/gm, '')
        .replace(/<!--.*?-->/gs, '')
        .split(/\s+/)
        .filter((word) => /[\p{L}\p{N}]/u.test(word)),
    )
    .reduce((sum, words) => sum + words.length, 0);
}

/** @param {string} entry */
function exists(entry) {
  if (/^(?:test|sample-app)\/[\w./-]+\.test(?:-d)?\.ts$/.test(entry))
    return existsSync(join(root, entry));
  return /^(?:npm run|npx nestjs-zookeeper) [\w:-]/.test(entry)
    ? unknownCommands({ name: '', text: entry }).length === 0
    : entry === 'npm test';
}

/** @param {string | undefined} program */
function commands(program) {
  if (program === 'npm run') {
    const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
    return Object.keys(scripts);
  }
  const folder = join(root, 'lib/cli');
  const files = readdirSync(folder).filter((file) => file.endsWith('.ts'));
  const source = files.map((file) => readFileSync(join(folder, file), 'utf8')).join('');
  return ['help', ...[...source.matchAll(/\.command\('([\w-]+)/g)].map(([, command]) => command)];
}
