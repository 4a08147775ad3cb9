import type { RunSettings } from '../../demo/simulated-run.js';

const LOCKED = { modes: ['lock'], faults: false } as const;

/** The stories of the documentation. The events of a story happen with every seed. */
export const STORIES: Readonly<Record<string, Omit<RunSettings, 'seed'>>> = {
  /** The holder is paused for longer than its session lives, and writes late. */
  'paused-holder': {
    ...LOCKED,
    ...{ buyers: 24, items: 12, delay: [300, 500] },
    actions: [
      { at: 1_000, instance: 'holder', action: 'pause' },
      { at: 5_000, instance: 'holder', action: 'resume' },
    ],
  },
  /** The holder is cut off from ZooKeeper. It gives its lease up before ZooKeeper grants the lock to another instance. */
  'cut-holder': {
    ...LOCKED,
    // A purchase takes longer than a session lives.
    ...{ buyers: 6, items: 3, delay: [2_600, 3_000] },
    actions: [
      { at: 200, instance: 'holder', action: 'cut' },
      { at: 5_000, instance: 'holder', action: 'heal' },
    ],
  },
};
