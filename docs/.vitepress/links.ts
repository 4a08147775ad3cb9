import { existsSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import type { MarkdownRenderer } from 'vitepress';

export const REPOSITORY = 'https://github.com/nestjs-zookeeper/nestjs-zookeeper';

const DOCS = join(import.meta.dirname, '..');
const ROOT = join(DOCS, '..');

/** Returns the id of a heading. It is the one that GitHub gives it, so that a link works on both. */
export function headingId(heading: string): string {
  return heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, '')
    .replace(/\s/g, '-');
}

/** Replaces links to files that are not on the site, such as `../README.md`, by links to the repository. */
export function linkToRepository(markdown: MarkdownRenderer): void {
  markdown.core.ruler.push('link-to-repository', ({ env, tokens }) => {
    for (const { children } of tokens) {
      for (const token of children ?? []) {
        const href = token.type === 'link_open' ? token.attrGet('href') : null;
        if (!href || /^([a-z]+:|#|\/)/.test(href)) continue;
        const [path, anchor] = href.split('#');
        const file = join(dirname(env.path as string), decodeURIComponent(path!));
        const isPage = file.endsWith('.md') && file !== join(DOCS, 'README.md');
        if (isPage && !relative(DOCS, file).startsWith('..')) continue;
        if (!existsSync(file))
          throw new Error(`${env.relativePath} links to ${href}, which does not exist`);
        const inRepository = relative(ROOT, file).replaceAll('\\', '/');
        token.attrSet(
          'href',
          `${REPOSITORY}/blob/main/${inRepository}${anchor ? `#${anchor}` : ''}`,
        );
      }
    }
  });
}
