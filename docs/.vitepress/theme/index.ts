import type { Theme } from 'vitepress';
import theme from 'vitepress/theme';
import { h } from 'vue';
import CopyPage from './CopyPage.vue';
import RaceTimeline from './RaceTimeline.vue';
import './style.css';

export default {
  extends: theme,
  Layout: () => h(theme.Layout, null, { 'doc-before': () => h(CopyPage) }),
  enhanceApp: ({ app }) => void app.component('RaceTimeline', RaceTimeline),
} satisfies Theme;
