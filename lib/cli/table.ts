import type { Participant } from '../recipes/index.js';
import type { ElectionSnapshot, LockSnapshot } from './scan.js';

/** Rows for the waiters of one lock; the rest is one row with their number. */
const MAX_WAITERS = 10;

/** One row for each holder and for each of the first waiters. */
export function lockTable(locks: readonly LockSnapshot[]): string {
  if (locks.length === 0) return 'no lock has a holder or a waiter\n';
  return table(
    ['KEY', 'RECIPE', 'STATE', 'PARTICIPANT', 'DETAILS', 'SINCE'],
    locks.flatMap(({ key, recipe, participants, trouble }) => {
      if (trouble) return [[key, recipe, 'unclear', '', trouble, '']];
      const holding = participants.filter(({ state }) => state === 'holding');
      const waiting = participants.filter(({ state }) => state === 'waiting');
      const rows = [...holding, ...waiting.slice(0, MAX_WAITERS)].map((participant) => [
        key,
        recipe,
        stateOf(participant),
        nameOf(participant),
        detailsOf(participant),
        time(participant.since),
      ]);
      const more = waiting.length - MAX_WAITERS;
      if (more > 0) rows.push([key, recipe, `${more} more wait`, '', '', '']);
      return rows;
    }),
  );
}

export function electionTable(elections: readonly ElectionSnapshot[]): string {
  if (elections.length === 0) return 'no election has a participant\n';
  return table(
    ['ELECTION', 'STATE', 'PARTICIPANT', 'SINCE'],
    elections.flatMap(({ election, participants }) =>
      participants.map(({ id, isLeader, since }) => [
        election,
        isLeader ? 'leads' : 'waits',
        id,
        time(since),
      ]),
    ),
  );
}

function stateOf({ state, mode, revoked }: Participant): string {
  const verb = state === 'holding' ? 'holds' : 'waits';
  const how = mode === 'read' || mode === 'write' ? ` to ${mode}` : '';
  return `${verb}${how}${revoked ? ', revoke requested' : ''}`;
}

/** Other clients, such as Curator, write at most an address. */
function nameOf({ host, pid, text, session }: Participant): string {
  if (host !== undefined) return `${host} pid ${pid}`;
  return text || `session 0x${session}`;
}

function detailsOf({ details }: Participant): string {
  return [details?.name, details?.text].filter(Boolean).join(': ');
}

function time(since: Date): string {
  return since.toISOString().replace(/\.\d+/, '');
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [head, ...rows].map((row) => row.map(plain));
  const widths = head.map((_, column) => Math.max(...lines.map((line) => line[column]!.length)));
  return lines
    .map(
      (line) =>
        `${line
          .map((cell, column) => cell.padEnd(widths[column]!))
          .join('  ')
          .trimEnd()}\n`,
    )
    .join('');
}

/** Other clients' data must not contain control characters, which could move the cursor of a terminal. */
function plain(cell: string): string {
  return cell.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, '?');
}
