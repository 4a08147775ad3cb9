/** Looks at each group: how often something was checked, and what was violated. */
export function collect(groups, look) {
  let made = 0;
  const violations = [];
  for (const [key, group] of groups) {
    look(key, group, {
      made: () => made++,
      violation: (what) => violations.push(what),
    });
  }
  return { made, violations };
}

export function groupBy(list, keyOf) {
  const groups = new Map();
  for (const item of list) {
    const key = keyOf(item);
    const group = groups.get(key);
    if (group) group.push(item);
    else groups.set(key, [item]);
  }
  return groups;
}

export function ms(value) {
  return `${value.toFixed(1)} ms`;
}
