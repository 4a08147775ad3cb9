import { setMaxListeners } from 'node:events';
import { constants } from 'node:os';
import { HELP, parseOptions, UsageError } from './seckill/options.js';
import { Progress } from './seckill/progress.js';
import { outcome, soldExactly, table } from './seckill/result.js';
import { seckill } from './seckill/run.js';

const progress = new Progress();
const interrupt = new AbortController();
// Each instance listens while it starts.
setMaxListeners(0, interrupt.signal);
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => {
    process.exitCode = 128 + constants.signals[signal];
    // A second signal skips the cleanup; the instances end with this process anyway.
    if (interrupt.signal.aborted) process.exit();
    interrupt.abort();
  });
}

try {
  const options = parseOptions(process.argv.slice(2));
  if (options === 'help') {
    console.log(HELP);
  } else {
    const result = await seckill(options, progress, interrupt.signal);
    const sentence = outcome(result, options.items);
    if (options.json) {
      console.log(JSON.stringify(result));
      progress.line(sentence);
    } else {
      console.log(`\n${table(result)}\n\n${sentence}`);
    }
    process.exitCode = soldExactly(result.locked, options.items) ? 0 : 1;
  }
} catch (error) {
  if (interrupt.signal.aborted) {
    progress.line('seckill: interrupted, everything is stopped');
  } else {
    progress.line(`seckill: ${error instanceof Error ? error.message : error}`);
    process.exitCode = error instanceof UsageError ? 2 : 1;
  }
}
