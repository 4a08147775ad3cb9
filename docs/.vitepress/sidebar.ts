import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { DefaultTheme } from 'vitepress';

const DOCS = join(import.meta.dirname, '..');

/** A list of pages, or a folder: the listed pages come first, then the others of the folder. */
interface Section {
  readonly title: { readonly en: string; readonly zh: string };
  readonly folder?: string;
  readonly pages: readonly string[];
}

const SECTIONS: readonly Section[] = [
  { title: { en: 'Start', zh: '开始' }, pages: ['introduction', 'quick-start', 'comparison'] },
  {
    title: { en: 'Guides', zh: '指南' },
    folder: 'guides',
    pages: [
      ...[
        'locks',
        'semaphores',
        'leaders',
        'cron',
        'queues',
        'transactions',
        'guarded-writes',
        'live-configuration',
        'counters-and-barriers',
        'distributed-queues',
        'partitions',
        'members',
        'configuration',
      ],
      ...['testing', 'simulation', 'development', 'shutdown', 'deploy'],
    ],
  },
  {
    title: { en: 'Reference', zh: '参考' },
    folder: 'reference',
    pages: ['troubleshooting', 'recipes', 'options'],
  },
  {
    title: { en: 'Operations', zh: '运维' },
    folder: 'operations',
    pages: ['zookeeper', 'security'],
  },
  { title: { en: 'Migrating', zh: '迁移' }, folder: 'migrating', pages: [] },
  {
    title: { en: 'Internals', zh: '内部原理' },
    folder: 'internals',
    pages: ['how-a-grant-stays-safe', 'state-machines', 'source'],
  },
  {
    title: { en: 'Evidence', zh: '证据' },
    folder: 'evidence',
    pages: ['chaos', 'simulation', 'exploration', 'benchmark', 'shortest-timeout'],
  },
  {
    title: { en: 'Help', zh: '帮助' },
    pages: ['faq', 'reliability', 'performance'],
  },
];

/**
 * Returns the sidebar of a language, with the pages that exist. The text of a link is the title of its page.
 *
 * @throws Error if a page is in no section
 */
export function sidebarOf(language: 'en' | 'zh'): DefaultTheme.SidebarItem[] {
  const root = language === 'zh' ? 'zh/' : '';
  const sections = SECTIONS.map(({ title, folder, pages }) => {
    const prefix = folder ? `${root}${folder}/` : root;
    const existing = pagesIn(prefix);
    const others = folder ? existing.filter((page) => !pages.includes(page)) : [];
    const shown = [...pages.filter((page) => existing.includes(page)), ...others];
    const items = shown.map((page) => ({
      text: titleOf(prefix + page),
      link: `/${prefix}${page}`,
    }));
    return { text: title[language], items };
  });
  const listed = SECTIONS.flatMap(({ folder, pages }) => (folder ? [] : pages));
  const unlisted = pagesIn(root).filter((page) => !listed.includes(page));
  if (unlisted.length > 0) {
    throw new Error(`.vitepress/sidebar.ts has no section for ${root}${unlisted.join(', ')}`);
  }
  return sections.filter(({ items }) => items.length > 0);
}

/** Returns the names of the pages of a folder, without the home page and the list of pages for GitHub. */
function pagesIn(folder: string): string[] {
  const directory = join(DOCS, folder);
  if (!existsSync(directory)) return [];
  return readdirSync(directory)
    .filter((file) => file.endsWith('.md') && file !== 'index.md' && file !== 'README.md')
    .map((file) => file.slice(0, -'.md'.length));
}

function titleOf(page: string): string {
  const heading = /^# (.+)$/m.exec(readFileSync(join(DOCS, `${page}.md`), 'utf8'))?.[1];
  if (!heading) throw new Error(`docs/${page}.md has no title`);
  return heading;
}
