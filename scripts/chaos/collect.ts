/** The result of one kind of check. */
export interface Findings {
  /** How often the check was made. */
  readonly made: number;
  readonly violations: string[];
}

interface Recorder {
  made(): void;
  violation(message: string): void;
}

/** Applies a check to each group and collects what it finds. */
export function collect<K, V>(
  groups: Iterable<readonly [K, V]>,
  check: (key: K, group: V, recorder: Recorder) => void,
): Findings {
  let made = 0;
  const violations: string[] = [];
  for (const [key, group] of groups) {
    check(key, group, {
      made: () => void made++,
      violation: (message) => void violations.push(message),
    });
  }
  return { made, violations };
}

export function groupBy<T, K>(list: readonly T[], keyOf: (item: T) => K): Map<K, T[]> {
  const groups = new Map<K, T[]>();
  for (const item of list) {
    const key = keyOf(item);
    const group = groups.get(key);
    if (group) group.push(item);
    else groups.set(key, [item]);
  }
  return groups;
}

export function ms(value: number): string {
  return `${value.toFixed(1)} ms`;
}
