import type { LockMode } from '../live/events.js';
import type { TimelineText } from './timeline/text.js';

/** What the marks of a sale's timeline mean. */
export function Legend({ mode, text }: { mode: LockMode; text: TimelineText }) {
  const { buys, overwrites, holds, waits, refused, handOver } = text.legend;
  const entries =
    mode === 'none'
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
