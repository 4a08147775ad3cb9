import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '../packed.mjs';

/** Stands before a block that continues the one above it. */
const CONTINUES = '<!-- continues -->';

/** Marks a block that demonstrates a bug: the tests with this name must fail. It precedes `CONTINUES`. */
const FAILS = /<!-- fails: (.+) -->\s*(<!-- continues -->)?$/;

/** Returns the pages of the repository's root, of sample-app/, of examples/ and of docs/. */
export function pages() {
  const guides = ['docs', 'examples'].flatMap((folder) =>
    readdirSync(join(root, folder), { encoding: 'utf8', recursive: true })
      .filter((file) => file.endsWith('.md') && !file.includes('node_modules'))
      .map((file) => `${folder}/${file}`),
  );
  const names = [
    ...['README.md', 'README.zh-CN.md', 'CONTRIBUTING.md', 'CHANGELOG.md', 'SECURITY.md'],
    'sample-app/README.md',
  ];
  return [...names, ...guides].map((name) => ({
    name,
    text: readFileSync(join(root, name), 'utf8'),
  }));
}

/**
 * @typedef {object} Block
 * @property {string} page
 * @property {string | undefined} language
 * @property {number} line
 * @property {string} code
 * @property {string | undefined} fails the name of the tests that must fail
 */

/**
 * Returns the code blocks of a page, each with its language and the line in which its code begins.
 *
 * @param {{ name: string; text: string }} page
 */
export function blocksOf({ name, text }) {
  /** @type {Block[]} */
  const blocks = [];
  for (const match of text.matchAll(/^```([^`\n]*)\n(.*?)^```$/gms)) {
    const before = text.slice(0, match.index);
    const line = before.split('\n').length + 1;
    const [, info = '', code = ''] = match;
    const [language] = info.trim().split(' ');
    const fails = FAILS.exec(before.trimEnd())?.[1];
    const above = before.trimEnd().endsWith(CONTINUES) ? blocks.at(-1) : undefined;
    if (above) {
      const between = line - above.line - above.code.split('\n').length + 1;
      above.code += '\n'.repeat(between) + code;
      above.fails ??= fails;
    } else blocks.push({ page: name, language, line, code, fails });
  }
  return blocks;
}
