import { UsageError } from '../options.js';
import type { EmbeddedServerKind, WorkloadName } from '../types.js';

/** One replacement in the source of the library. */
export interface Edit {
  /** The path of the file, relative to the root of the project. */
  readonly file: string;
  /** The code to replace. It must occur exactly once in the file. */
  readonly search: string;
  readonly replace: string;
}

/** A bug that is planted into a copy of the library, to check that the simulation finds it. */
export interface Mutant {
  readonly name: string;
  /** Describes the behaviour of the mutated library, and names known bugs of this kind in other libraries. */
  readonly bug: string;
  /** The workload that finds it. Default: locks. */
  readonly workload?: WorkloadName;
  /** The server that the simulated servers copy. Default: ZooKeeper. */
  readonly server?: EmbeddedServerKind | undefined;
  readonly edits: readonly Edit[];
}

/**
 * Returns the source after one edit.
 *
 * @throws UsageError if the file does not contain the search string exactly once
 */
export function applyEdit(source: string, { file, search, replace }: Edit, mutant: string): string {
  const parts = source.split(search);
  if (parts.length === 2) return parts.join(replace);
  const found = parts.length === 1 ? 'not found' : `found ${parts.length - 1} times`;
  throw new UsageError(
    `mutant ${mutant}: its search string was ${found} in ${file}; change the mutant so that it plants the same bug into the current code:\n${search}`,
  );
}

/**
 * Returns the mutated source of each file that the mutant edits.
 *
 * @param read returns the source of a file
 * @throws UsageError as {@link applyEdit} does
 */
export function mutatedSources(
  { name, edits }: Mutant,
  read: (file: string) => string,
): Map<string, string> {
  const sources = new Map<string, string>();
  for (const edit of edits) {
    const { file } = edit;
    sources.set(file, applyEdit(sources.get(file) ?? read(file), edit, name));
  }
  return sources;
}
