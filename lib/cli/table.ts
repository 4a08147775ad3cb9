import type { Participant } from '../recipes/index.js';
import type { ElectionSeen, LockSeen } from './scan.js';

/** Of one lock; the others are counted. */
const MOST_WAITERS = 10;

/** One row for each holder, and for the first of those who wait. */
export function lockTable(locks: readonly LockSeen[]): string {
  if (locks.length === 0) return 'nobody holds a lock or waits for one\n';
  return table(
    ['KEY', 'RECIPE', 'STATE', 'WHO', 'SAYS', 'SINCE'],
    locks.flatMap(({ key, recipe, participants, trouble }) => {
      if (trouble) return [[key, recipe, 'unclear', '', trouble, '']];
      const holding = participants.filter(({ state }) => state === 'holding');
      const waiting = participants.filter(({ state }) => state === 'waiting');
      const rows = [...holding, ...waiting.slice(0, MOST_WAITERS)].map((participant) => [
        key,
        recipe,
        stateOf(participant),
        whoIs(participant),
        saysOf(participant),
        time(participant.since),
      ]);
      const more = waiting.length - MOST_WAITERS;
      if (more > 0) rows.push([key, recipe, `${more} more wait`, '', '', '']);
      return rows;
    }),
  );
}

export function electionTable(elections: readonly ElectionSeen[]): string {
  if (elections.length === 0) return 'nobody takes part in an election\n';
  return table(
    ['ELECTION', 'STATE', 'WHO', 'SINCE'],
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
  const does = state === 'holding' ? 'holds' : 'waits';
  const how = mode === 'read' || mode === 'write' ? ` to ${mode}` : '';
  return `${does}${how}${revoked ? ', asked back' : ''}`;
}

/** Others than this library say nothing of themselves but an address, as Curator does. */
function whoIs({ host, pid, text, session }: Participant): string {
  if (host !== undefined) return `${host} pid ${pid}`;
  return text || `session 0x${session}`;
}

function saysOf({ details }: Participant): string {
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

/** What strangers wrote into znodes must not move the cursor of a terminal. */
function plain(cell: string): string {
  return cell.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, '?');
}
