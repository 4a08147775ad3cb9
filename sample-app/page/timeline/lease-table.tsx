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

/** The grants and writes of the view as a table, for readers who cannot see the bars. */
export function LeaseTable({ data, view, lockKey, text }: LeaseTableProps) {
  const [isOpen, setOpen] = useState(false);
  const rows = isOpen ? rowsOf(data, view, lockKey, text) : [];
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
            {rows.map(({ lane, times, outcome, token, rank }) => (
              <tr>
                <td>{data.lanes[lane]}</td>
                {times.map((at) => (
                  <td>{at === undefined ? '' : seconds(at)}</td>
                ))}
                <td>{outcome}</td>
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

/** Requested, granted and ended; of a write: read, and written. */
type Times = readonly [number | undefined, number | undefined, number | undefined];

function rowsOf(
  { leases, writes }: TimelineData,
  view: TimelineView,
  lockKey: string | undefined,
  text: TimelineText,
) {
  const isShown = (from: number, until = view.until) => from <= view.until && until >= view.from;
  const grants = leases
    .filter(({ key, granted }) => granted !== undefined && (!lockKey || key === lockKey))
    .filter(({ granted, ended }) => isShown(granted!, ended))
    .map(({ lane, requested, granted, ended, outcome, token, rank }) => ({
      ...{ lane, token, rank, start: granted! },
      times: [requested, granted, ended] as Times,
      outcome: outcome === undefined ? text.holding : text.outcome(outcome),
    }));
  const rest = writes
    .filter(({ read, written }) => isShown(read, written))
    .map(({ lane, read, written, outcome, token, rank }) => ({
      ...{ lane, token, rank, start: read },
      times: [read, undefined, written] as Times,
      outcome: outcome === undefined ? '' : text.writes[outcome],
    }));
  return [...grants, ...rest].sort((a, b) => a.start - b.start).slice(0, MOST_ROWS);
}
