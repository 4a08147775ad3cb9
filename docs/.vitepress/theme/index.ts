import type { Theme } from 'vitepress';
import theme from 'vitepress/theme';
import { h } from 'vue';
import CopyPage from './CopyPage.vue';
import './style.css';

export default {
  extends: theme,
  Layout: () => h(theme.Layout, null, { 'doc-before': () => h(CopyPage) }),
} satisfies Theme;
