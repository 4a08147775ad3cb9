import type { FaultKind, PlannedFault } from '../simulation/fault-plan.js';

type ExploredFault = import('nestjs-zookeeper/testing').ExploredFault;

/*
 * The faults of `explore()` under the names of the simulation, whose rules say which violations a fault excuses.
 */

const PROCESS_FAULTS: readonly (readonly [RegExp, FaultKind | undefined])[] = [
  [/^(short|long) pause/, 'pause'],
  [/^(short|long) cut requests/, 'cut requests'],
  [/^(short|long) cut replies/, 'cut replies'],
  [/^(short|long) cut/, 'cut'],
  [/^late requests/, 'cut requests'],
  [/^late replies/, 'cut replies'],
  [/^lost reply to delete/, 'lose delete reply'],
  [/^lost reply to getChildren2/, 'lose listing reply'],
  [/^lost reply to sync/, 'lose sync reply'],
  [/^lost reply/, 'lose create reply'],
  [/^reset/, 'reset'],
  [/^crash/, 'crash'],
  [/^silent crash/, 'crash silently'],
  [/^expiry/, 'expire session'],
  [/^deletion/, 'delete node'],
  // It excuses only what `History.revocations` says.
  [/^revocation/, undefined],
];

const SERVER_FAULTS: readonly (readonly [RegExp, FaultKind])[] = [
  [/^(long )?crash/, 'crash server'],
  [/^silent crash/, 'crash server silently'],
  [/^(short|long) pause/, 'pause server'],
  [/isolation|lag/, 'isolate server'],
];

/**
 * Returns a fault that starts at a time as the rules know it; undefined if no rule knows it.
 *
 * @param servers the addresses of the servers
 */
export function toPlannedFault(
  { name, target, duration }: ExploredFault,
  from: number,
  servers: readonly string[],
): PlannedFault | undefined {
  const server = servers.indexOf(target);
  const kinds = server < 0 ? PROCESS_FAULTS : SERVER_FAULTS;
  const [, kind] = kinds.find(([pattern]) => pattern.test(name))!;
  if (kind === undefined) return undefined;
  const planned = server < 0 ? target : `server ${server + 1}`;
  return { index: 0, kind, target: planned, from, until: from + duration };
}
