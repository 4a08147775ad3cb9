import { FUNCTION, NON_EMPTY_STRING, rule, type Rules, wholeNumber } from '../client/validation.js';

/**
 * The options of a candidate of an election.
 *
 * @publicApi
 */
export interface CandidateOptions {
  /** The name of this participant, such as its address: 1 to 4,096 bytes. Default: host name and process id. */
  id?: string | undefined;
  /** The name of the election in errors and terms. Default: the path. */
  key?: string | undefined;
  /**
   * A whole number of 0 or more. The candidate with the highest priority leads while it takes part: a leader with a lower
   * one gives the leadership up, and joins the queue again behind it. Candidates of equal priority lead in the order of
   * arrival. Set it on all instances: a candidate without it, such as one of Curator, counts as priority 0, and it does not
   * give the leadership up for a higher priority. Default: none.
   */
  priority?: number | undefined;
  /**
   * Called with each error that keeps this candidate from the election: the ensemble refused a request, or the retry
   * policy gave up on the connection. The candidate still tries again every second. Default: a process warning.
   */
  onError?: ((error: unknown) => void) | undefined;
}

/** Bytes. Each request to join the election contains the id. */
const MAX_ID_BYTES = 4096;

export const CANDIDATE_RULES: Rules<CandidateOptions> = {
  id: rule(
    `a non-empty string of at most ${MAX_ID_BYTES} bytes`,
    (id: unknown) => typeof id === 'string' && id !== '' && Buffer.byteLength(id) <= MAX_ID_BYTES,
  ),
  key: NON_EMPTY_STRING,
  priority: wholeNumber(0),
  onError: FUNCTION,
};
