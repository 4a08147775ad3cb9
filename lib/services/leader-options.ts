import { BadOptionError } from '../client/errors.js';
import type { CandidateOptions, LeaderSelectorOptions } from '../recipes/index.js';
import { checkKnownOptions } from './lease-options.js';
import { checkKey } from './lock-key.js';

/**
 * As what, and by which znode, a process takes part in an election.
 *
 * @publicApi
 */
export interface ElectionOptions extends Pick<CandidateOptions, 'id'> {
  /**
   * The exact znode instead of `<namespace>/elections/<election>`, to share it with a Curator service.
   */
  path?: string;
}

/**
 * What {@link LeaderService.select} takes.
 *
 * @publicApi
 */
export interface SelectOptions
  extends ElectionOptions, Pick<LeaderSelectorOptions, 'autoRequeue' | 'onError'> {}

/**
 * An election that an application takes part in from its start on.
 *
 * @publicApi
 */
export type ElectionAtStart = string | (ElectionOptions & { election: string });

const ELECTION_OPTIONS = ['id', 'path'] satisfies (keyof ElectionOptions)[];
const SELECT_OPTIONS = [
  ...ELECTION_OPTIONS,
  'autoRequeue',
  'onError',
] satisfies (keyof SelectOptions)[];

export function checkElectionOptions(options: unknown): asserts options is ElectionOptions {
  checkKnownOptions('options', options, ELECTION_OPTIONS);
}

export function checkSelectOptions(options: unknown): asserts options is SelectOptions {
  checkKnownOptions('options', options, SELECT_OPTIONS);
}

export function checkElections(elections: unknown): asserts elections is ElectionAtStart[] {
  if (!Array.isArray(elections)) {
    throw new BadOptionError('elections', elections, 'a list of elections');
  }
  const names = new Set<unknown>();
  for (const [index, at] of elections.entries()) {
    const what = `elections[${index}]`;
    if (typeof at !== 'string') checkKnownOptions(what, at, [...ELECTION_OPTIONS, 'election']);
    const election: unknown = typeof at === 'string' ? at : (at as { election: unknown }).election;
    checkKey(election, typeof at === 'string' ? what : `${what}.election`);
    if (names.has(election)) throw new BadOptionError(what, election, 'in the list once');
    names.add(election);
  }
}
