import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { defineConfig } from 'vitepress';
import { drawDiagrams } from './diagrams.js';
import { headingId, linkToRepository, REPOSITORY } from './links.js';
import { sidebarOf } from './sidebar.js';

const EDIT = `${REPOSITORY}/edit/main/docs/:path`;

export default defineConfig({
  title: 'nestjs-zookeeper',
  description: 'Distributed locks, semaphores and leader election over Apache ZooKeeper for NestJS',
  // Without it a browser asks for /favicon.ico.
  head: [['link', { rel: 'icon', href: 'data:,' }]],
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
    },
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
