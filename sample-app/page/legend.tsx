import type { LockMode } from '../live/events.js';
import type { TimelineText } from './timeline/text.js';

/** What the marks of the timeline of a sale, or of the leaders, mean. */
export function Legend({ mode, text }: { mode: LockMode | 'leaders'; text: TimelineText }) {
  const { buys, overwrites, holds, leads, waits, refused, handOver } = text.legend;
  const entries =
    mode === 'leaders'
      ? [
          ['hold', leads],
          ['hand-over', handOver],
        ]
      : mode === 'none'
        ? [
            ['hold', buys],
            ['over', overwrites],
          ]
        : [
            ['hold', holds],
            ['wait', waits],
            ['refused', refused],
            ['hand-over', handOver],
          ];
  const all = [...entries, ['unconfirmed', text.bands.unconfirmed]];
  return (
    <ul class="legend">
      {all.map(([mark, meaning]) => (
        <li key={mark}>
          <i class={mark} aria-hidden="true" />
          {meaning}
        </li>
      ))}
    </ul>
  );
}
