type TraceEntry = import('nestjs-zookeeper/testing').TraceEntry;

/** Formats a trace as a table with a column for each process, server and the scenario. */
export function sideBySide(trace: readonly TraceEntry[]): string {
  const names = [...new Set(trace.map(({ process }) => process))].sort();
  const width = Math.max(
    0,
    ...trace.map(({ event }) => event.length),
    ...names.map(({ length }) => length),
  );
  const row = (time: string, cells: readonly string[]) =>
    [time.padStart(12), ...cells.map((cell) => cell.padEnd(width))].join('  ').trimEnd();
  return [
    row('ms', names),
    ...trace.map(({ at, process, event }) =>
      row(
        at.toFixed(3),
        names.map((name) => (name === process ? event : '')),
      ),
    ),
  ].join('\n');
}
