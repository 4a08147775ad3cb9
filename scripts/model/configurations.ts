import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

export const MODEL = fileURLToPath(new URL('../../scripts/model/lock.pml', import.meta.url));

/** The constants of the model, which lock.pml explains. */
interface Constants {
  readonly NP: number;
  readonly NC: number;
  readonly NF: number;
  readonly ROUNDS: 0 | 1 | 2;
  readonly STRICT: 0 | 1;
  readonly KEEPER: 0 | 1;
  readonly DELETIONS: 0 | 1;
}

export interface Configuration {
  readonly name: string;
  readonly constants: Constants;
  /** Whether the gate searches it. */
  readonly quick: boolean;
}

function configuration(
  name: string,
  [NP, NC, NF]: readonly [processes: number, callers: number, faults: number],
  options: Partial<Constants> & { quick?: boolean } = {},
): Configuration {
  const { quick = false, ...constants } = options;
  const defaults = { ROUNDS: 1, STRICT: 0, KEEPER: 0, DELETIONS: 1 } as const;
  return { name, constants: { NP, NC, NF, ...defaults, ...constants }, quick };
}

/**
 * Without end, because a caller can be starved only then. docs/internals/model.md explains why other clients delete no znodes
 * there.
 */
const ENDLESS = { ROUNDS: 0, DELETIONS: 0 } as const;
const STRICT_ENDLESS = { ROUNDS: 0, STRICT: 1 } as const;
const HANDOVER = configuration('hand-over', [2, 2, 2], { quick: true });
const STRICT = configuration('strict', [2, 2, 1], { STRICT: 1, quick: true });
const KEEPER = configuration('Keeper, three processes', [3, 1, 1], { KEEPER: 1, quick: true });
const WAITERS = configuration('hand-over, without end', [2, 2, 1], { ...ENDLESS, quick: true });

export const CONFIGURATIONS: readonly Configuration[] = [
  HANDOVER,
  STRICT,
  configuration('three processes', [3, 1, 1], { quick: true }),
  configuration('Keeper', [2, 2, 1], { KEEPER: 1, quick: true }),
  KEEPER,
  WAITERS,
  configuration('three processes, without end', [3, 1, 1], { ...ENDLESS, quick: true }),
  configuration('strict, without end', [2, 2, 0], { ...STRICT_ENDLESS, quick: true }),
  configuration('hand-over', [2, 2, 3]),
  configuration('hand-over, two rounds', [2, 2, 1], { ROUNDS: 2 }),
  configuration('strict', [2, 2, 2], { STRICT: 1 }),
  configuration('three processes', [3, 1, 2]),
  configuration('three processes', [3, 1, 3]),
  configuration('three processes', [3, 2, 1]),
  configuration('Keeper', [2, 2, 2], { KEEPER: 1 }),
  configuration('Keeper, three processes', [3, 1, 2], { KEEPER: 1 }),
  configuration('Keeper, strict', [2, 2, 1], { KEEPER: 1, STRICT: 1 }),
  configuration('hand-over, without end', [2, 2, 2], ENDLESS),
  configuration('three processes, without end', [3, 1, 2], ENDLESS),
  configuration('strict, without end', [2, 2, 1], STRICT_ENDLESS),
];

/** A planted bug of the simulation that the model has too. */
export interface ModelBug {
  readonly name: string;
  /** The rule of CONTRIBUTING.md that it breaks. */
  readonly rule: number;
  /** The configuration that must find it. */
  readonly configuration: Configuration;
}

/** Returns the planted bugs, which the model lists by rule. */
export function modelBugs(): ModelBug[] {
  const list = /mtype = \{([^}]*)\}/.exec(readFileSync(MODEL, 'utf8'))![1]!;
  return list.split('/* rule ').flatMap((text) =>
    Array.from(text.matchAll(/[A-Z_]{2,}/g), ([constant]) => {
      const name = constant.toLowerCase().replaceAll('_', '-');
      return { name, rule: Number.parseInt(text, 10), configuration: configurationFor(name) };
    }),
  );
}

function configurationFor(name: string): Configuration {
  if (name.startsWith('strict-')) return STRICT;
  if (name.startsWith('token-')) return KEEPER;
  return name === 'hands-over-without-limit' ? WAITERS : HANDOVER;
}
