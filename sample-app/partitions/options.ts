import { parseArgs } from 'node:util';
import { checkServers, UsageError, wholeNumber } from '../seckill/options.js';

export { UsageError };

export interface PartitionsOptions {
  processes: number;
  partitions: number;
  rounds: number;
  zookeeper: string | undefined;
  json: boolean;
}

export const HELP = `npm run partitions -- [options]

Spreads partitions over several processes, kills one of them with SIGKILL and starts it again, and shows who owns how
many partitions. Checks that no partition has two owners at a time and that its fencing tokens rise.

  --processes N      processes that share the partitions (4)
  --partitions N     partitions of the work (64)
  --rounds N         how often a process is killed and started again (2)
  --zookeeper LIST   host:port[,host:port…][/chroot] (default: an embedded server)
  --json             print the rows as one JSON object
  --help             print this text

The exit code is 0 if each partition had one owner at a time and the processes were balanced after each change, 1 if
not, and 2 for a wrong option.`;

export function parseOptions(args: string[]): PartitionsOptions | 'help' {
  const values = parse(args);
  if (values.help) return 'help';
  if (values.zookeeper !== undefined) checkServers('--zookeeper', values.zookeeper);
  return {
    processes: wholeNumber('--processes', values.processes, 2, 16),
    partitions: wholeNumber('--partitions', values.partitions, 1, 1000),
    rounds: wholeNumber('--rounds', values.rounds, 1, 100),
    zookeeper: values.zookeeper,
    json: values.json,
  };
}

function parse(args: string[]) {
  try {
    return parseArgs({
      args,
      strict: true,
      allowPositionals: false,
      options: {
        processes: { type: 'string', default: '4' },
        partitions: { type: 'string', default: '64' },
        rounds: { type: 'string', default: '2' },
        zookeeper: { type: 'string' },
        json: { type: 'boolean', default: false },
        help: { type: 'boolean', default: false },
      },
    }).values;
  } catch (error) {
    throw new UsageError((error as Error).message.split(/[.\n]/)[0], { cause: error });
  }
}
