import { styleText } from 'node:util';
import { foreignText } from '../client/index.js';
import { showDuration } from './durations.js';
import { type LockState, type LockParticipant, parentOf } from './scan.js';

/** The greatest number of groups of waiters that are shown of one lock. */
const MAX_GROUPS = 10;

type Style = Parameters<typeof styleText>[0];

interface Row {
  /** The lines that connect the row with its parent. */
  readonly branch: string;
  readonly text: string;
  readonly style: Style;
  readonly age?: string;
  readonly waited?: string;
}

/**
 * Returns the lines of a tree: namespaces, their locks and elections, and the holders and waiters of each.
 *
 * @param columns the width to which the lines are cut
 */
export function tree(states: readonly LockState[], columns = Infinity): string[] {
  const groups = groupBy(states, headingOf);
  const rows = [...groups].flatMap(([heading, members]) => [
    { branch: '', text: heading, style: 'bold' as const },
    ...members.flatMap((state, index) => rowsOf(state, index === members.length - 1)),
  ]);
  return layOut(
    [{ branch: '', text: '', style: 'dim', age: 'AGE', waited: 'WAITED' }, ...rows],
    columns,
  );
}

/** Returns who holds a lock, waits for it or leads, in one line. */
export function describeParticipant(member: LockParticipant): string {
  const { id, details, host, pid } = member;
  const process = host === undefined ? '' : `${host} pid ${pid}`;
  const name = id ?? details?.name;
  const who = name && process ? `${name} (${process})` : identityOf(member);
  return foreignText(details?.text ? `${who}: ${details.text}` : who);
}

/** Returns the heading of a lock or an election: its namespace, or the path of its parent. */
export function headingOf({ namespace, path }: Pick<LockState, 'namespace' | 'path'>): string {
  if (namespace === '') return 'no namespace';
  return foreignText(namespace === undefined ? parentOf(path) || '/' : `namespace ${namespace}`);
}

function rowsOf({ key, recipe, holders, waiters, problem }: LockState, isLast: boolean): Row[] {
  const now = Date.now();
  const age = (members: readonly LockParticipant[]) =>
    showDuration(
      members.reduce((longest, { since }) => Math.max(longest, now - since.getTime()), 0),
    );
  const held = groupsOf(holders, recipe === 'election' ? 'leads' : 'holds');
  const waiting = groupsOf(waiters, 'waits');
  const shown = waiting.slice(0, MAX_GROUPS);
  const below: Omit<Row, 'branch'>[] = [
    ...held.map(({ text, members }) => {
      const style = members[0]!.mayLinger ? ('yellow' as const) : ('green' as const);
      return { text, style, age: age(members) };
    }),
    ...shown.map(({ text, members }) => ({
      text,
      style: 'cyan' as const,
      waited: age(members),
    })),
  ];
  const more = waiters.length - shown.reduce((sum, { members }) => sum + members.length, 0);
  if (more > 0) below.push({ text: `… ${more} more`, style: 'cyan' });
  if (problem) below.push({ text: `unclear: ${problem}`, style: 'red' });
  const indent = isLast ? '   ' : '│  ';
  return [
    {
      branch: isLast ? '└─ ' : '├─ ',
      text: `${foreignText(key)} (${recipe})`,
      style: 'bold',
    },
    ...below.map((row, index) => ({
      ...row,
      branch: indent + (index === below.length - 1 ? '└─ ' : '├─ '),
    })),
  ];
}

/** Groups the members that do the same and have the same name or the same process. */
function groupsOf(
  members: readonly LockParticipant[],
  verb: string,
): { readonly text: string; readonly members: readonly LockParticipant[] }[] {
  const groups = groupBy(members, (each) =>
    JSON.stringify([stateOf(each, verb), identityOf(each)]),
  );
  return [...groups.values()].map((group) => {
    const [first] = group as [LockParticipant];
    const who =
      group.length > 1
        ? `${foreignText(identityOf(first))} × ${group.length}`
        : describeParticipant(first);
    return { text: `${stateOf(first, verb)}  ${who}`, members: group };
  });
}

function stateOf(
  { mayLinger, mode, revoked, processEnded }: LockParticipant,
  verb: string,
): string {
  const how = mode === 'read' || mode === 'write' ? ` to ${mode}` : '';
  const marks = [revoked && 'revoke requested', processEnded && 'process ended'];
  return [`${verb}${mayLinger ? ' or lingers' : ''}${how}`, ...marks.filter(Boolean)].join(', ');
}

/** The znodes of other clients, such as Curator, have no host and process id, but perhaps an address as text. */
function identityOf({ id, details, host, pid, text, session }: LockParticipant): string {
  const process = host === undefined ? undefined : `${host} pid ${pid}`;
  return id || details?.name || process || text || `session 0x${session}`;
}

function groupBy<T>(items: readonly T[], keyOf: (item: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const item of items) {
    const group = groups.get(keyOf(item));
    if (group) group.push(item);
    else groups.set(keyOf(item), [item]);
  }
  return groups;
}

function layOut(rows: readonly Row[], columns: number): string[] {
  const widthOf = (cells: readonly string[]) =>
    cells.reduce((widest, cell) => Math.max(widest, displayWidth(cell)), 0);
  const age = widthOf(rows.map((row) => row.age ?? ''));
  const waited = widthOf(rows.map((row) => row.waited ?? ''));
  const widest = widthOf(rows.map(({ branch, text }) => branch + text));
  const left = Math.max(10, Math.min(widest, columns - age - waited - 4));
  return rows.map(({ branch, text, style, ...row }) => {
    const fitted = cut(text, left - branch.length);
    const gap = ' '.repeat(Math.max(0, left - branch.length - displayWidth(fitted)));
    const numbers = `  ${(row.age ?? '').padStart(age)}  ${(row.waited ?? '').padStart(waited)}`;
    return `${branch}${fitted && styleText(style, fitted)}${`${gap}${numbers}`.trimEnd()}`;
  });
}

const graphemes = new Intl.Segmenter();

/** Breaks a text between words into lines of a width. */
export function wrap(text: string, width: number): string[] {
  const lines: string[] = [];
  for (const word of text.split(' ')) {
    const longer = `${lines.at(-1)} ${word}`;
    if (lines.length > 0 && displayWidth(longer) <= width) lines[lines.length - 1] = longer;
    else lines.push(cut(word, width));
  }
  return lines;
}

/** Cuts a text to a width and puts an ellipsis at the end. */
function cut(text: string, width: number): string {
  if (displayWidth(text) <= width) return text;
  let fitted = '';
  let used = 1;
  for (const { segment } of graphemes.segment(text)) {
    used += displayWidth(segment);
    if (used > width) break;
    fitted += segment;
  }
  return `${fitted}…`;
}

const WIDE =
  /[\p{sc=Han}\p{sc=Hangul}\p{sc=Hiragana}\p{sc=Katakana}\p{Emoji_Presentation}\u3000-\u303f\uff01-\uff60]/u;

/** Returns the number of columns of a text in a terminal. */
function displayWidth(text: string): number {
  // Most texts are ASCII.
  if (/^[ -~]*$/.test(text)) return text.length;
  let width = 0;
  for (const { segment } of graphemes.segment(text)) width += WIDE.test(segment) ? 2 : 1;
  return width;
}
