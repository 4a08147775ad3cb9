import type { Mutant } from './mutant.js';

const CLAIMS = 'lib/services/tick-claims.ts';

/** Bugs in the cron jobs of a leader. */
export const CRON_MUTANTS: readonly Mutant[] = [
  {
    name: 'cron-tick-claimed-again',
    bug: 'A leader claims the tick that another leader has claimed.',
    workload: 'cron',
    edits: [{ file: CLAIMS, search: '>= tick) return false', replace: '> tick) return false' }],
  },
  {
    name: 'cron-earlier-tick-claimed',
    bug: 'After a clock was set back, a leader claims a tick that was claimed before.',
    workload: 'cron',
    edits: [{ file: CLAIMS, search: '>= tick) return false', replace: '=== tick) return false' }],
  },
  {
    name: 'cron-claim-overwrites',
    bug: 'Two calls of one leader, by its election and by the schedule, both claim the same tick.',
    workload: 'cron',
    edits: [{ file: CLAIMS, search: ', version: claimed.stat.version', replace: '' }],
  },
  {
    name: 'cron-claims-after-the-start',
    bug: 'A job starts before its claim is confirmed.',
    workload: 'cron',
    edits: [
      {
        file: CLAIMS,
        search: 'await term.transaction([{ set: path, data, version: claimed.stat.version }]);',
        replace:
          'void term.transaction([{ set: path, data, version: claimed.stat.version }]).catch(() => {});',
      },
    ],
  },
  {
    name: 'cron-missed-tick-not-started',
    bug: "With missed: 'once', the next leader waits for the next tick.",
    workload: 'cron',
    edits: [
      {
        file: 'lib/schedule/index.ts',
        search: "missed === 'once' ?",
        replace: "(missed as string) === 'never' ?",
      },
    ],
  },
];
