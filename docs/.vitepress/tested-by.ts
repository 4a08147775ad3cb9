import { basename } from 'node:path';
import type { MarkdownRenderer } from 'vitepress';
import { REPOSITORY } from './links.js';

/** The comment that scripts/docs/tested-by.mjs checks. */
export const TESTED_BY = /<!-- Tested by\s+([^>]+?) -->/g;

/** Shows the tests that a section names as a line below it. */
export function showTests(markdown: MarkdownRenderer): void {
  const block = markdown.renderer.rules.html_block!;
  markdown.renderer.rules.html_block = (...args) =>
    block(...args).replace(TESTED_BY, (_, entries: string) => {
      const links = entries.split(/,\s+/).map((entry) => linkTo(entry.replace(/\s+/g, ' ')));
      return `<p class="tested-by">Tested by ${links.join(', ')}</p>`;
    });
}

function linkTo(entry: string): string {
  const isFile = /\.test(-d)?\.ts$/.test(entry);
  const target = isFile ? entry : 'CONTRIBUTING.md#commands';
  const text = isFile ? basename(entry) : entry;
  return `<a href="${REPOSITORY}/blob/main/${target}"><code v-pre>${text}</code></a>`;
}
