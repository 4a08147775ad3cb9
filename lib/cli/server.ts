import { resolve } from 'node:path';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { DataDirectory, DataDirectoryError } from '../embedded/data-directory.js';
import { connectStringOf, resolveOptions } from '../embedded/options.js';
import { PROFILES, type EmbeddedServerKind } from '../embedded/profiles.js';
import { ZooKeeperServer } from '../embedded/server.js';
import { readDuration } from './durations.js';
import { ExitCode, Failure } from './exit-codes.js';
import { onStopSignal } from './signals.js';

interface Options {
  readonly port: number;
  readonly host: string;
  /** Milliseconds. */
  readonly tickTime: number;
  readonly server: EmbeddedServerKind;
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
      readHost,
      '127.0.0.1',
    )
    .addOption(
      new Option(
        '--tick-time <duration>',
        'sessions expire at whole ticks; the minimum session timeout is 2 ticks',
      )
        .default(2_000, '2s')
        .argParser(readTickTime),
    )
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

/** The commands, except `doctor`, refuse to connect to RaftKeeper. */
function nextStep(server: Options['server']): string {
  return server === 'raftkeeper'
    ? 'To see what is unsafe there: npx nestjs-zookeeper doctor'
    : 'To list the locks: npx nestjs-zookeeper locks';
}

/** Resolves when a signal has stopped the server. A second signal ends the process at once. */
async function runServer(options: Options): Promise<void> {
  const { json, host, tickTime } = options;
  const settings = resolveOptions({ port: options.port, host, tickTime, server: options.server });
  const stopped = new Promise<void>((resolve) => onStopSignal(() => resolve()));
  const path = options.data === undefined ? null : resolve(options.data);
  const data = path === null ? undefined : await openData(path, options.server);
  try {
    const server = new ZooKeeperServer(settings, data?.saved, data);
    const port = await listen(server);
    const connectString = connectStringOf({ host, port });
    const started = json
      ? JSON.stringify({ host, port, connectString, data: path })
      : `ZooKeeper protocol on ${host}:${port} — connectString: '${connectString}'
${nextStep(options.server)} --zookeeper ${connectString}`;
    process.stdout.write(`${started}\n`);
    process.stderr.write(
      `Not for production: one process without replication. ${guarantee(path)}\n`,
    );
    await stopped;
    await server.close();
  } finally {
    await data?.close();
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

function warn(message: string): void {
  process.stderr.write(`nestjs-zookeeper: ${message}\n`);
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

function readHost(text: string): string {
  if (text === '') throw new InvalidArgumentError('It must be an address to listen on.');
  return text;
}

function readDirectory(text: string): string {
  if (text === '') throw new InvalidArgumentError('It must be a directory.');
  return text;
}

function readTickTime(text: string): number {
  const tickTime = readDuration(text);
  if (Number.isInteger(tickTime) && tickTime >= 10 && tickTime <= 60_000) return tickTime;
  throw new InvalidArgumentError('It must be whole milliseconds, from 10ms to 1m.');
}
