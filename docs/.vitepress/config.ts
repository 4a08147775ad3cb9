import { copyFileSync, existsSync } from 'node:fs';
import { join } from 'node:path';
import { defineConfig } from 'vitepress';
import { drawDiagrams } from './diagrams.js';
import { headingId, linkToRepository, REPOSITORY } from './links.js';
import { writeMarkdownCopies } from './markdown-copies.js';
import { renderForSearch } from './search.js';
import { sidebarOf } from './sidebar.js';
import { showTests } from './tested-by.js';

/** Where the site is published, for absolute addresses. The default is that of `npm run docs:site -- --serve`. */
const SITE = (process.env.SITE_URL ?? 'http://localhost:4173').replace(/\/$/, '');
const DESCRIPTION =
  'Distributed locks, semaphores and leader election over Apache ZooKeeper for NestJS';
const EDIT = `${REPOSITORY}/edit/main/docs/:path`;

export default defineConfig({
  title: 'nestjs-zookeeper',
  description: DESCRIPTION,
  // Without it a browser asks for /favicon.ico.
  head: [
    ['link', { rel: 'icon', href: 'data:,' }],
    ['meta', { property: 'og:site_name', content: 'nestjs-zookeeper' }],
    ['meta', { property: 'og:image', content: `${SITE}/live-oversold.png` }],
    ['meta', { name: 'twitter:card', content: 'summary_large_image' }],
  ],
  sitemap: { hostname: SITE },
  // The demo is built by scripts/docs-site.mjs.
  ignoreDeadLinks: [/^\/demo\//],
  outDir: '../dist-docs',
  cacheDir: '../node_modules/.cache/vitepress',
  // The list of pages for readers on GitHub.
  srcExclude: ['**/README.md'],
  cleanUrls: true,
  lastUpdated: false,
  // The search index, which a browser loads when its user searches.
  vite: { build: { chunkSizeWarningLimit: 800 } },
  markdown: {
    anchor: { slugify: headingId },
    config(markdown) {
      drawDiagrams(markdown);
      linkToRepository(markdown);
      showTests(markdown);
    },
  },
  transformHead: ({ title, description }) => [
    ['meta', { property: 'og:title', content: title }],
    ['meta', { property: 'og:description', content: description }],
  ],
  // The theme has a landmark on all pages but this one.
  transformHtml: (html) =>
    html.replace(/<div class="VPContent is-home"/, '<div role="main" class="VPContent is-home"'),
  buildEnd({ outDir }) {
    writeMarkdownCopies(outDir, SITE, DESCRIPTION);
    const picture = 'live-oversold.png';
    copyFileSync(join(import.meta.dirname, '../images', picture), join(outDir, picture));
  },
  transformPageData({ frontmatter, relativePath }) {
    const other = relativePath.startsWith('zh/') ? relativePath.slice(3) : `zh/${relativePath}`;
    frontmatter.translated = existsSync(join(import.meta.dirname, '..', other));
  },
  themeConfig: {
    // The source of this function becomes part of the site, so it uses nothing from outside.
    i18nRouting(_, { data: { frontmatter, relativePath } }, locale) {
      const home = locale === 'zh' ? '/zh/' : '/';
      if (!frontmatter.translated) return home;
      return home + relativePath.replace(/^zh\//, '').replace(/(index)?\.md$/, '');
    },
    outline: { level: [2, 3] },
    socialLinks: [{ icon: 'github', link: REPOSITORY }],
    search: {
      provider: 'local',
      options: {
        _render: renderForSearch,
        locales: {
          zh: {
            translations: {
              button: { buttonText: '搜索', buttonAriaLabel: '搜索' },
              modal: {
                displayDetails: '显示详情',
                resetButtonTitle: '清除',
                backButtonTitle: '关闭',
                noResultsText: '没有结果：',
                footer: { selectText: '打开', navigateText: '切换', closeText: '关闭' },
              },
            },
          },
        },
      },
    },
  },
  locales: {
    root: {
      label: 'English',
      lang: 'en',
      themeConfig: {
        nav: [
          { text: 'Guides', link: '/guides/locks', activeMatch: '^/guides/' },
          { text: 'Reference', link: '/reference/recipes', activeMatch: '^/reference/' },
          { text: 'Operations', link: '/operations/zookeeper', activeMatch: '^/operations/' },
        ],
        sidebar: sidebarOf('en'),
        editLink: { pattern: EDIT, text: 'Edit this page on GitHub' },
      },
    },
    zh: {
      label: '简体中文',
      lang: 'zh-CN',
      description: '为 NestJS 提供基于 Apache ZooKeeper 的分布式锁、信号量与领导者选举',
      themeConfig: {
        nav: [
          { text: '指南', link: '/zh/guides/locks', activeMatch: '^/zh/guides/' },
          { text: '常见问题', link: '/zh/faq' },
          { text: '英文参考', link: '/reference/recipes' },
        ],
        sidebar: sidebarOf('zh'),
        editLink: { pattern: EDIT, text: '在 GitHub 上编辑此页' },
        outline: { level: [2, 3], label: '本页目录' },
        docFooter: { prev: '上一页', next: '下一页' },
        darkModeSwitchLabel: '外观',
        lightModeSwitchTitle: '切换到浅色',
        darkModeSwitchTitle: '切换到深色',
        sidebarMenuLabel: '目录',
        returnToTopLabel: '回到顶部',
        langMenuLabel: '语言',
        skipToContentLabel: '跳到正文',
      },
    },
  },
});
