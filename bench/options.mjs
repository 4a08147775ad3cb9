import { number, optionsOf, wholeNumber } from '../scripts/options.mjs';
import { CASES } from './cases.mjs';

const LEAST_SECONDS = 0.1;
const MOST_SECONDS = 60;
const MOST_REPETITIONS = 100;

const KNOWN = CASES.map(({ name }) => name);

export function readOptions() {
  return optionsOf(
    {
      cases: { type: 'string' },
      seconds: { type: 'string', default: '1' },
      repetitions: { type: 'string', default: '3' },
      json: { type: 'boolean', default: false },
      write: { type: 'boolean', default: false },
    },
    check,
  );
}

function check({ cases, seconds, repetitions, json, write }) {
  const names = cases?.split(',') ?? KNOWN;
  const unknown = names.find((name) => !KNOWN.includes(name));
  if (unknown !== undefined) {
    throw new Error(
      `--cases must be some of ${KNOWN.join(', ')}, but has ${JSON.stringify(unknown)}`,
    );
  }
  if (write && names.length < CASES.length) {
    throw new Error('--write must be given without --cases: the document shows all of them');
  }
  return {
    seconds: number('seconds', seconds, LEAST_SECONDS, MOST_SECONDS),
    repetitions: wholeNumber('repetitions', repetitions, 1, MOST_REPETITIONS),
    json,
    write,
    cases: CASES.filter(({ name }) => names.includes(name)),
  };
}
