import { parseArgs } from 'node:util';
import { CASES } from './cases.mjs';

const MOST_SECONDS = 60;
const MOST_REPETITIONS = 100;

/** @throws Error that names the option */
export function readOptions() {
  const { values } = parseArgs({
    options: {
      cases: { type: 'string' },
      seconds: { type: 'string', default: '1' },
      repetitions: { type: 'string', default: '3' },
      json: { type: 'boolean', default: false },
      write: { type: 'boolean', default: false },
    },
  });
  const seconds = Number(values.seconds);
  if (!(seconds > 0 && seconds <= MOST_SECONDS)) {
    throw new Error(
      `--seconds must be above 0 and at most ${MOST_SECONDS}, but is ${values.seconds}`,
    );
  }
  const repetitions = Number(values.repetitions);
  if (!(Number.isInteger(repetitions) && repetitions >= 1 && repetitions <= MOST_REPETITIONS)) {
    throw new Error(
      `--repetitions must be a whole number from 1 to ${MOST_REPETITIONS}, but is ${values.repetitions}`,
    );
  }
  const names = values.cases?.split(',') ?? CASES.map(({ name }) => name);
  const unknown = names.find((name) => !CASES.some((one) => one.name === name));
  if (unknown !== undefined) {
    const known = CASES.map(({ name }) => name).join(', ');
    throw new Error(`--cases must be some of ${known}, but has ${JSON.stringify(unknown)}`);
  }
  if (values.write && names.length < CASES.length) {
    throw new Error('--write must be given without --cases: the document shows all of them');
  }
  const { json, write } = values;
  return {
    seconds,
    repetitions,
    json,
    write,
    cases: CASES.filter(({ name }) => names.includes(name)),
  };
}
