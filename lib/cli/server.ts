import { resolve } from 'node:path';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { DataDirectory, DataDirectoryError } from '../embedded/data-directory.js';
import {
  connectStringOf,
  type EmbeddedZooKeeperOptions,
  resolveOptions,
  type ServerOptions,
} from '../embedded/options.js';
import { PROFILES, type EmbeddedServerKind } from '../embedded/profiles.js';
import { ZooKeeperServer } from '../embedded/server.js';
import { readDuration } from './durations.js';
import { ExitCode, Failure, onStopSignal, UsageError } from './exit.js';
import { toJson, warn } from './output.js';

/** ZooKeeper's default for each address. On loopback all clients have one address, and there is no limit. */
const MAX_CONNECTIONS = 60;

interface Options extends EmbeddedZooKeeperOptions {
  readonly host: string;
  readonly data?: string;
  readonly json?: boolean;
}

/** Adds `server`. */
export function addServerCommand(program: Command): void {
  program
    .command('server')
    .summary('run a ZooKeeper server for development and CI')
    .description(
      'Runs a ZooKeeper server in this process, for development and CI without a JVM. ' +
        'It is not for production: it has no replication.',
    )
    .option('--port <number>', 'the port; 0 chooses a free one', readPort, 2181)
    .option(
      '--host <address>',
      'the address to listen on; with the default only this machine can connect',
      '127.0.0.1',
    )
    .addOption(
      new Option(
        '--tick-time <duration>',
        'sessions expire at whole ticks; the minimum session timeout is 2 ticks',
      )
        .default(2_000, '2s')
        .argParser(readDuration),
    )
    .option(
      '--min-session-timeout <duration>',
      'the minimum session timeout (default: 2 ticks)',
      readDuration,
    )
    .option(
      '--max-session-timeout <duration>',
      'the maximum session timeout (default: 20 ticks, but at least 1m)',
      readDuration,
    )
    .option(
      '--four-letter-words <words...>',
      "the four-letter words that are answered; '*' stands for all (default: those of the copied server)",
    )
    .option('--super-digest <user:hash>', 'the user who passes every ACL, as a digest ACL names it')
    .addOption(
      new Option('--server <kind>', 'the server whose behaviour it copies')
        .choices(Object.keys(PROFILES))
        .default('zookeeper'),
    )
    .option(
      '--data <directory>',
      'keep the znodes and sessions in this directory; without it, they are lost when the server stops',
      readDirectory,
    )
    .option('--json', 'print one line of JSON: host, port, connectString, data')
    .action(runServer);
}

/** Resolves when a signal has stopped the server. A second signal ends the process at once. */
async function runServer({ json, data: directory, ...options }: Options): Promise<void> {
  const isOpen = !/^(127\.|::1$|localhost$)/.test(options.host);
  const settings = settingsOf({ ...options, maxClientCnxns: isOpen ? MAX_CONNECTIONS : 0 });
  const { host, server: kind } = settings;
  const stopped = new Promise<void>((resolve) => onStopSignal(() => resolve()));
  const path = directory === undefined ? null : resolve(directory);
  const data = path === null ? undefined : await openData(path, kind);
  try {
    const server = new ZooKeeperServer(settings, data?.saved, data);
    const port = await listen(server);
    const connectString = connectStringOf({ host, port });
    const started = json
      ? toJson({ host, port, connectString, data: path })
      : `ZooKeeper protocol on ${host}:${port} — connectString: '${connectString}'
To list the locks: npx nestjs-zookeeper locks --zookeeper ${connectString}`;
    process.stdout.write(`${started}\n`);
    process.stderr.write(
      `Not for production: one process without replication. ${guarantee(path)}\n`,
    );
    if (isOpen) {
      warn(
        `every machine that reaches ${host} can read and change the znodes, and the connections are not encrypted`,
      );
    }
    await stopped;
    await server.close();
  } finally {
    await data?.close();
  }
}

/** Checks the options. An error names the option of the command line. */
function settingsOf(options: EmbeddedZooKeeperOptions): ServerOptions {
  try {
    return resolveOptions(options);
  } catch (error) {
    const { message } = error as Error;
    throw new UsageError(
      message.replace(
        /^EmbeddedZooKeeper: (\w+)/,
        (_, name: string) => `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`,
      ),
    );
  }
}

function guarantee(path: string | null): string {
  if (path === null) return 'It loses its znodes when it stops.';
  return `Confirmed writes in ${path} survive kill -9; a crash of the machine may lose those of the last second.`;
}

async function openData(path: string, kind: EmbeddedServerKind): Promise<DataDirectory> {
  try {
    const onFailure = (error: Error) => {
      warn(error.message);
      process.exit(ExitCode.failed);
    };
    const data = await DataDirectory.open(path, onFailure, kind);
    for (const warning of data.warnings) warn(warning);
    return data;
  } catch (error) {
    if (error instanceof DataDirectoryError) throw new Failure(error.message);
    throw error;
  }
}

async function listen(server: ZooKeeperServer): Promise<number> {
  const { host, port } = server.options;
  try {
    return await server.listen();
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code !== 'EADDRINUSE') throw new Failure(`cannot listen on ${host}: ${message}`);
    throw new Failure(
      `port ${port} of ${host} is in use: choose another one with --port; 0 chooses a free one`,
    );
  }
}

function readPort(text: string): number {
  const port = /^\d+$/.test(text) ? Number(text) : NaN;
  if (!(port <= 65_535)) throw new InvalidArgumentError('It must be a port, from 0 to 65535.');
  return port;
}

function readDirectory(text: string): string {
  if (text === '') throw new InvalidArgumentError('It must be a directory.');
  return text;
}
