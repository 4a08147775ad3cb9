import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { DefaultTheme } from 'vitepress';

const DOCS = join(import.meta.dirname, '..');

interface Section {
  readonly title: { readonly en: string; readonly zh: string };
  /** Paths from docs/, without `.md`. */
  readonly pages: readonly string[];
  /** Whether a reader who has just arrived sees only its title. */
  readonly collapsed?: boolean;
}

/** What typedoc writes; see scripts/docs-site.mjs. */
const API: DefaultTheme.SidebarItem[] = [
  { text: 'All classes and functions', link: '/api/index.html', target: '_self' },
];

/** Returns the paths of the pages of a folder. */
const inFolder = (folder: string, ...names: readonly string[]) =>
  names.map((name) => `${folder}/${name}`);

const SECTIONS: readonly Section[] = [
  { title: { en: 'Start', zh: '开始' }, pages: ['introduction', 'quick-start', 'comparison'] },
  {
    title: { en: 'Locks and leaders', zh: '锁与领导者' },
    pages: inFolder(
      'guides',
      ...['locks', 'transactions', 'semaphores', 'leaders', 'cron', 'queues'],
      ...['guarded-writes', 'reentrancy'],
    ),
  },
  {
    title: { en: 'Coordination', zh: '协调' },
    pages: inFolder(
      'guides',
      ...['partitions', 'members', 'live-configuration', 'counters-and-barriers'],
      'distributed-queues',
    ),
    collapsed: true,
  },
  {
    title: { en: 'Your application', zh: '你的应用' },
    pages: inFolder(
      'guides',
      ...['configuration', 'testing', 'simulation', 'integrations', 'development', 'shutdown'],
      'deploy',
    ),
  },
  {
    title: { en: 'Help', zh: '帮助' },
    pages: ['faq', ...inFolder('reference', 'troubleshooting', 'glossary')],
  },
  {
    title: { en: 'Reference', zh: '参考' },
    pages: inFolder(
      'reference',
      ...['recipes', 'options', 'errors', 'command-line', 'metrics', 'transports', 'znode-layout'],
    ),
    collapsed: true,
  },
  {
    title: { en: 'Operations', zh: '运维' },
    pages: inFolder(
      'operations',
      ...['zookeeper', 'security', 'telemetry', 'health', 'other-servers'],
    ),
    collapsed: true,
  },
  {
    title: { en: 'Migrating', zh: '迁移' },
    pages: inFolder('migrating', 'from-redlock', 'from-curator', 'from-shedlock'),
    collapsed: true,
  },
  {
    title: { en: 'Evidence', zh: '证据' },
    pages: [
      ...['reliability', 'performance'],
      ...inFolder('evidence', 'chaos', 'simulation', 'exploration', 'benchmark'),
      'evidence/shortest-timeout',
    ],
    collapsed: true,
  },
  {
    title: { en: 'Internals', zh: '内部原理' },
    pages: inFolder('internals', 'how-a-grant-stays-safe', 'model', 'state-machines', 'source'),
    collapsed: true,
  },
];

/** The pages in the order of the sidebar, as paths from docs/ without `.md`. */
export const ENGLISH_PAGES: readonly string[] = SECTIONS.flatMap(({ pages }) => pages);

/**
 * Returns the sidebar of a language, with the pages that exist. The text of a link is the title of its page.
 *
 * @throws Error if a page is in no section
 */
export function sidebarOf(language: 'en' | 'zh'): DefaultTheme.SidebarItem[] {
  const root = language === 'zh' ? 'zh/' : '';
  const existing = pagesOf(language);
  const unlisted = existing.filter((page) => !ENGLISH_PAGES.includes(page));
  if (unlisted.length > 0) {
    throw new Error(`.vitepress/sidebar.ts has no section for ${root}${unlisted.join(', ')}`);
  }
  return SECTIONS.map(({ title, pages, collapsed = false }) => ({
    text: title[language],
    // The few Chinese pages are all visible.
    ...(language === 'en' && { collapsed }),
    items: pages
      .filter((page) => existing.includes(page))
      .map((page): DefaultTheme.SidebarItem => ({
        text: titleOf(root + page),
        link: `/${root}${page}`,
      }))
      .concat(language === 'en' && title.en === 'Reference' ? API : []),
  })).filter(({ items }) => items.length > 0);
}

/** Returns the pages of a language, without its home page and the list of pages for GitHub. */
function pagesOf(language: 'en' | 'zh'): string[] {
  return readdirSync(join(DOCS, language === 'zh' ? 'zh' : ''), {
    encoding: 'utf8',
    recursive: true,
  })
    .map((file) => file.replaceAll('\\', '/'))
    .filter((file) => file.endsWith('.md') && !/(^|\/)(index|README)\.md$/.test(file))
    .filter((file) => language === 'zh' || !file.startsWith('zh/'))
    .map((file) => file.slice(0, -'.md'.length));
}

/** Returns the title of a page, a path from docs/ without `.md`. */
export function titleOf(page: string): string {
  const heading = /^# (.+)$/m.exec(readFileSync(join(DOCS, `${page}.md`), 'utf8'))?.[1];
  if (!heading) throw new Error(`docs/${page}.md has no title`);
  return heading;
}
