import type { Language } from '../messages/language.js';

export const TEXTS = {
  en: {
    simulating: 'Simulating…',
    simulation: 'Simulated in this browser',
    recording: 'Recorded from real processes',
    failed: 'The simulation failed. Reload the page to try again.',
    unchangeable: 'A recorded run cannot be changed.',
    seed: 'Seed',
    newSeed: 'New seed',
    faults: 'Random faults',
    speed: 'Speed',
    openDemo: 'Open in the demo',
  },
  zh: {
    simulating: '模拟中……',
    simulation: '在浏览器中模拟',
    recording: '真实进程的录像',
    failed: '模拟失败，请刷新页面重试。',
    unchangeable: '录像无法改变。',
    seed: '种子',
    newSeed: '换一个种子',
    faults: '随机故障',
    speed: '速度',
    openDemo: '在演示页中打开',
  },
} satisfies Record<Language, object>;
