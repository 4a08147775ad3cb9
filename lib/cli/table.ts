import type { Participant } from '../recipes/index.js';
import type { ElectionSnapshot, LockSnapshot } from './scan.js';

/** The greatest number of rows for the waiters of one lock. One more row has the number of the others. */
const MAX_WAITERS = 10;

/** Returns a table with a row for each holder and for each of the first waiters. */
export function lockTable(locks: readonly LockSnapshot[]): string {
  if (locks.length === 0) return 'no lock has a holder or a waiter\n';
  return table(
    ['KEY', 'RECIPE', 'STATE', 'PARTICIPANT', 'DETAILS', 'SINCE'],
    locks.flatMap(({ key, recipe, participants, problem }) => {
      if (problem) return [[key, recipe, 'unclear', '', problem, '']];
      const present = participants.filter(({ state }) => state !== 'waiting');
      const waiting = participants.filter(({ state }) => state === 'waiting');
      const rows = [...present, ...waiting.slice(0, MAX_WAITERS)].map((participant) => [
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

const VERBS = { holding: 'holds', lingering: 'lingers', waiting: 'waits' };

function stateOf({ state, mayLinger, mode, revoked }: Participant): string {
  const verb = mayLinger ? 'holds or lingers' : VERBS[state];
  const how = mode === 'read' || mode === 'write' ? ` to ${mode}` : '';
  return `${verb}${how}${revoked ? ', revoke requested' : ''}`;
}

/** The znodes of other clients, such as Curator, have no host and process id, but perhaps an address as text. */
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

/** Replaces control characters in data of other clients: they could move the cursor of the terminal. */
function plain(cell: string): string {
  return cell.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, '?');
}
