import { isRecord } from '../../client/index.js';
import { RecipeConflictError } from '../../kernel/index.js';

/** Which member each partition is assigned to. */
export interface Assignment {
  /** The ids of the members, sorted. */
  readonly members: readonly string[];
  /** For each partition, the position of its member in `members`. */
  readonly owners: readonly number[];
}

/** Returns the partitions that are assigned to each member. */
export function partitionsByMember({ members, owners }: Assignment): Map<string, number[]> {
  const byPosition = members.map((): number[] => []);
  for (const [partition, owner] of owners.entries()) byPosition[owner]?.push(partition);
  return new Map(members.map((member, position) => [member, byPosition[position]!]));
}

/**
 * Assigns each partition to a member, so that the members have the same number of partitions or one more. Changes the
 * owner of as few partitions as possible: each member keeps what it has, up to its share. The members that have most get
 * the larger shares.
 *
 * @param members sorted, at least one
 * @param previous the assignment so far, if it has the same number of partitions
 */
export function rebalance(
  partitions: number,
  members: readonly string[],
  previous: Assignment | undefined,
): Assignment {
  const assigned = previous && partitionsByMember(previous);
  const kept = members.map((member) => assigned?.get(member) ?? []);
  const byCount = members.map((_, position) => position);
  byCount.sort((a, b) => kept[b]!.length - kept[a]!.length);
  const larger = partitions % members.length;
  const share = (rank: number) => Math.floor(partitions / members.length) + (rank < larger ? 1 : 0);

  const owners = Array.from<number | undefined>({ length: partitions });
  byCount.forEach((position, rank) => {
    for (const partition of kept[position]!.slice(0, share(rank))) owners[partition] = position;
  });
  const missing = byCount.flatMap((position, rank) =>
    Array.from({ length: Math.max(0, share(rank) - kept[position]!.length) }, () => position),
  );
  return { members, owners: owners.map((owner) => owner ?? missing.shift()!) };
}

/** Whether an assignment is one to these members. */
export function hasMembers(
  assignment: Assignment | undefined,
  members: readonly string[],
): boolean {
  return assignment?.members.join('/') === members.join('/');
}

/** Returns the data of the znode of a member that has this number of partitions. */
export function encodeCount(partitions: number): Buffer {
  return Buffer.from(String(partitions));
}

/** Returns the number of partitions in the data of the znode of a member; undefined if the data is something else. */
export function decodeCount(data: Buffer): number | undefined {
  const text = data.toString();
  return /^[0-9]{1,9}$/.test(text) ? Number(text) : undefined;
}

export function encodeAssignment(assignment: Assignment): string {
  return JSON.stringify(assignment);
}

/**
 * Returns the assignment in the data of the znode `path`; undefined if the znode is empty.
 *
 * @throws RecipeConflictError if it is something else
 */
export function decodeAssignment(path: string, data: Buffer): Assignment | undefined {
  if (data.length === 0) return undefined;
  const value = parse(data.toString());
  if (isAssignment(value)) return value;
  throw new RecipeConflictError(
    `the data of znode ${path} is not an assignment of partitions: ${data.length} bytes; use another path`,
    { key: path },
  );
}

function isAssignment(value: unknown): value is Assignment {
  if (!isRecord(value) || !Array.isArray(value.members) || !Array.isArray(value.owners)) {
    return false;
  }
  const { members, owners } = value;
  return (
    members.every((member) => typeof member === 'string') &&
    owners.every((owner) => Number.isInteger(owner) && owner >= 0 && owner < members.length)
  );
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
