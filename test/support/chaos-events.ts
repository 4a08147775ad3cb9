// Hand-written events of a chaos run, and the violations that its checker finds in them.

import { check } from '../../scripts/chaos/checker.js';
import { assemble, type Event, type Fault, type Mode } from '../../scripts/chaos/histories.js';

export { assemble, check, type Event };

/** A worker must recover within 2000 × 4/3 + 2 × 250 = 3167 ms. */
export const SETTING = { sessionTimeout: 2_000, tickTime: 250 };

export const ended: Event = { type: 'ended', orphans: [], at: 100_000 };

/** The violations by the name of their check. Checks without violations are left out. */
export function violations(...events: Event[]): Record<string, string[]> {
  const whole = events.some(({ type }) => type === 'ended') ? events : [...events, ended];
  const checks = check(assemble(whole), SETTING).filter((made) => made.violations.length > 0);
  return Object.fromEntries(checks.map((made) => [made.name, made.violations]));
}

/** A lease of the worker whose name is the first letter of the id. */
export function lease(
  id: string,
  token: number,
  granted: number,
  until: number | undefined,
  details: Partial<{
    key: string;
    mode: Mode;
    count: number;
    held: boolean;
    end: 'releasing' | 'lost';
  }> = {},
): Event[] {
  const { key = 'till', mode = 'exclusive', count = 1, held = true, end = 'releasing' } = details;
  const by = { worker: id[0]!, life: 1, id };
  const events: Event[] = [
    { type: 'granted', ...by, key, mode, count, held, token: String(token), at: granted },
  ];
  if (until !== undefined) events.push({ type: end, ...by, at: until, why: 'it is lost' });
  return events;
}

export const write = (id: string, at: number): Event => ({ type: 'write', worker: id[0]!, id, at });
export const stored = (id: string, token: number, accepted = true): Event => {
  return { type: 'stored', worker: id[0]!, id, key: 'till', token: String(token), accepted, at: 0 };
};
export const fault = (
  kind: string,
  worker: string | undefined,
  from: number,
  until: number,
): { type: 'fault' } & Fault => {
  return { type: 'fault', kind, worker, from, until, healed: until };
};
export const place = (id: string, sequence: number, directory = 1): Event => {
  return { type: 'place', worker: id[0]!, id, directory, sequences: [sequence] };
};
