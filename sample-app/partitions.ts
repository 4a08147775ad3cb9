import { constants } from 'node:os';
import { HELP, parseOptions, UsageError } from './partitions/options.js';
import { type Row, runPartitions } from './partitions/run.js';

const interrupt = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => {
    process.exitCode = 128 + constants.signals[signal];
    // A second signal skips the cleanup; the processes end with this one anyway.
    if (interrupt.signal.aborted) process.exit();
    interrupt.abort();
  });
}

const EVENT_WIDTH = 14;

function heading(processes: number): string {
  const names = Array.from({ length: processes }, (_, index) => `p${index + 1}`.padStart(5));
  return `${'time'.padStart(7)}  ${'event'.padEnd(EVENT_WIDTH)}${names.join('')}  no owner  moved  violations`;
}

function line({ time, event, owned, withoutOwner, moved, violations }: Row): string {
  const cells = owned.map((count) => String(count ?? '-').padStart(5));
  return [
    `${time.toFixed(1)} s`.padStart(7),
    `  ${event.padEnd(EVENT_WIDTH)}`,
    ...cells,
    String(withoutOwner).padStart(10),
    String(moved).padStart(7),
    String(violations).padStart(12),
  ].join('');
}

try {
  const options = parseOptions(process.argv.slice(2));
  if (options === 'help') {
    console.log(HELP);
  } else {
    if (!options.json) console.log(heading(options.processes));
    const onRow = (row: Row) => void (options.json || console.log(line(row)));
    const result = await runPartitions(options, onRow, interrupt.signal);
    const { violations, balanced } = result;
    if (options.json) console.log(JSON.stringify(result));
    for (const violation of violations) console.error(violation);
    const sentence =
      violations.length > 0
        ? `${violations.length} violations: see above`
        : `No partition had two owners at a time${balanced ? '' : ', but the processes were not balanced in time'}.`;
    console.error(sentence);
    process.exitCode ||= violations.length === 0 && balanced ? 0 : 1;
  }
} catch (error) {
  if (interrupt.signal.aborted) {
    console.error('partitions: interrupted, all processes have ended');
  } else {
    console.error(`partitions: ${error instanceof Error ? error.message : error}`);
    process.exitCode = error instanceof UsageError ? 2 : 1;
  }
}
