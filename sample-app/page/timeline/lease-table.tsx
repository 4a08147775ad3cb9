import { useState } from 'preact/hooks';
import type { TimelineData } from './data.js';
import { seconds } from './describe.js';
import type { TimelineView } from './paint.js';
import type { TimelineText } from './text.js';

/** A longer table would slow the page down. */
const MOST_ROWS = 300;

interface LeaseTableProps {
  data: TimelineData;
  view: TimelineView;
  lockKey: string | undefined;
  text: TimelineText;
}

/** The grants of the view as a table, for readers who cannot see the bars. */
export function LeaseTable({ data, view, lockKey, text }: LeaseTableProps) {
  const [isOpen, setOpen] = useState(false);
  if (!data.leases.some(({ granted }) => granted !== undefined)) return null;
  const rows = isOpen
    ? data.leases
        .filter(({ key, granted }) => granted !== undefined && (!lockKey || key === lockKey))
        .filter(
          ({ granted, ended }) => granted! <= view.until && (ended ?? view.until) >= view.from,
        )
        .sort((a, b) => a.granted! - b.granted!)
        .slice(0, MOST_ROWS)
    : [];
  const time = (at: number | undefined) => (at === undefined ? '' : seconds(at));
  return (
    <details class="timeline-table" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{text.table}</summary>
      <div tabIndex={0} role="group" aria-label={text.table}>
        <table>
          <thead>
            <tr>
              {text.columns.map((column) => (
                <th scope="col">{column}</th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map(({ lane, requested, granted, ended, outcome, token, rank }) => (
              <tr>
                <td>{data.lanes[lane]}</td>
                <td>{time(requested)}</td>
                <td>{time(granted)}</td>
                <td>{time(ended)}</td>
                <td>{outcome === undefined ? text.holding : text.outcome(outcome)}</td>
                <td>
                  {rank !== undefined && <b>#{rank}</b>} {token}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}
