import { BadOptionError } from '../client/errors.js';
import { BELOW_ROOT, checkOptions, type Rules, UNCHECKED } from '../client/validation.js';
import type { CandidateOptions } from '../recipes/candidate-options.js';
import { type LeaderSelectorOptions, SELECTOR_RULES } from '../recipes/leader-selector.js';
import { checkKey } from './keys.js';

/**
 * The id, the priority and the znode with which a process takes part in an election.
 *
 * @publicApi
 */
export interface ElectionOptions extends Pick<CandidateOptions, 'id' | 'priority'> {
  /** The exact znode to use, to share it with a Curator service. Default: `<namespace>/elections/<election>`. */
  path?: string | undefined;
}

/**
 * Options of {@link LeaderService.select}.
 *
 * @publicApi
 */
export interface SelectOptions
  extends ElectionOptions, Pick<LeaderSelectorOptions, 'autoRequeue' | 'onError'> {}

/**
 * An election in which an application takes part from its start.
 *
 * @publicApi
 */
export type ElectionAtStart = string | (ElectionOptions & { election: string });

const { id, priority, autoRequeue, onError } = SELECTOR_RULES;
export const ELECTION_RULES: Rules<ElectionOptions> = { id, priority, path: BELOW_ROOT };
export const SELECT_RULES: Rules<SelectOptions> = { ...ELECTION_RULES, autoRequeue, onError };

/** Checks the module's `elections`. Returns the options of each election by its name. */
export function electionsByName(elections: unknown): Map<string, ElectionOptions> {
  if (!Array.isArray(elections)) {
    throw new BadOptionError('elections', elections, 'a list of elections');
  }
  const byName = new Map<string, ElectionOptions>();
  for (const [index, entry] of (elections as unknown[]).entries()) {
    const what = `elections[${index}]`;
    if (typeof entry !== 'string') {
      const named = (option: string) => `${what}.${option}`;
      checkOptions(entry, { ...ELECTION_RULES, election: UNCHECKED }, what, named);
    }
    const { election, ...options } =
      typeof entry === 'string' ? { election: entry } : (entry as { election: unknown });
    checkKey(election, typeof entry === 'string' ? what : `${what}.election`);
    if (byName.has(election)) {
      const message = `${what}: election ${JSON.stringify(election)} appears twice in the list`;
      throw new BadOptionError(what, election, { message });
    }
    byName.set(election, options);
  }
  return byName;
}
