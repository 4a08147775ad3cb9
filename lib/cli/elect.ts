import type { Command } from 'commander';
import { sleep, type ZkClient } from '../client/index.js';
import { LeaderLatch } from '../recipes/index.js';
import { electionPath } from '../services/keys.js';
import { exitAs, type ExitStatus } from './child-process.js';
import { addConnectionOptions } from './connection.js';
import { showDuration } from './durations.js';
import { note } from './output.js';
import {
  addCommandOptions,
  checkArguments,
  type CommandOptions,
  supervise,
  type Supervisor,
} from './supervisor.js';

interface ElectOptions extends CommandOptions {
  readonly election?: string;
  readonly id?: string;
  readonly restart?: boolean;
}

/** Adds the command `elect`. */
export function addElectCommand(program: Command): void {
  const command = program
    .command('elect')
    .summary('run a command while leading an election')
    .description(
      'Takes part in an election, and runs a command while it leads. It stops the command when it loses the lead.',
    )
    .argument('<command...>', 'the command and its arguments, after --')
    .option(
      '--election <name>',
      'the election, required: a name, or a znode if it starts with a slash',
    )
    .option('--id <id>', 'the name of this participant (default: host name and process id)')
    .option('--restart', 'restart a command that has ended, after 1s to 30s')
    .passThroughOptions()
    .action(async (argv: string[], options: ElectOptions) => {
      const election = checkArguments(argv, options.election, '--election <name>');
      exitAs(
        await supervise(options, (...parts) =>
          runLeading(argv, { ...options, election }, ...parts),
        ),
      );
    });
  addConnectionOptions(addCommandOptions(command));
}

async function runLeading(
  argv: readonly string[],
  options: ElectOptions & { readonly election: string },
  client: ZkClient,
  supervisor: Supervisor,
): Promise<ExitStatus> {
  const { election: key, id, restart } = options;
  const path = key.startsWith('/') ? key : electionPath(client.namespace, key);
  // `await` throws the same error.
  const latch = new LeaderLatch(client, path, { key, id, onError: () => {} });
  const restartPause = new RestartPause();
  latch.start();
  try {
    for (;;) {
      const term = await latch.await({ signal: supervisor.cancelled });
      if (supervisor.stopSignal) return supervisor.stopSignal;
      const env = {
        ZK_FENCING_TOKEN: String(term.fencingToken),
        ZK_ELECTION: key,
        ZK_LEADER_PATH: path,
      };
      const status = await restartPause.measure(() => supervisor.run(argv, env, term));
      if (status === undefined) continue;
      if (!restart || supervisor.stopSignal) return status;
      const pause = restartPause.next();
      note(`the command has ended with ${status}; it starts again in ${showDuration(pause)}`);
      const signals = [supervisor.cancelled, term.signal];
      // The next wait for the lead checks both signals.
      await sleep(pause, { signals, ref: true }).catch(() => {});
    }
  } finally {
    await latch.close();
  }
}

/** Bounds, milliseconds. */
const MIN_PAUSE = 1000;
const MAX_PAUSE = 30_000;

/**
 * The pause before each restart of a command: 1 s at first, then twice as long each time, up to 30 s. It is 1 s again after
 * a run of more than 30 s.
 */
export class RestartPause {
  #next = MIN_PAUSE;
  /** Milliseconds that the last run took. */
  #ranFor = 0;

  /** Runs the command, and measures how long it runs. */
  async measure<T>(run: () => Promise<T>): Promise<T> {
    const since = performance.now();
    try {
      return await run();
    } finally {
      this.#ranFor = performance.now() - since;
    }
  }

  /** Returns the pause after the last run, milliseconds. */
  next(): number {
    const pause = this.#ranFor > MAX_PAUSE ? MIN_PAUSE : this.#next;
    this.#next = Math.min(2 * pause, MAX_PAUSE);
    return pause;
  }
}
