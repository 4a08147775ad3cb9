#!/usr/bin/env node
import { BadOptionError, CoordinationError, ZkClient } from '../client/index.js';
import { type Arguments, readArguments, UsageError } from './arguments.js';
import { Failure, leaders, locks, revokeLock, watch } from './commands.js';
import { USAGE } from './usage.js';

const FAILED = 1;
const NOT_UNDERSTOOD = 2;

async function main(): Promise<void> {
  const args = readArguments(process.argv.slice(2), process.env);
  if (!args) return print(USAGE);
  const interrupted = new AbortController();
  const interrupt = () => interrupted.abort();
  process.once('SIGINT', interrupt).once('SIGTERM', interrupt);
  const client = new ZkClient(args.client);
  interrupted.signal.addEventListener('abort', () => void client.close());
  try {
    await client.connect();
    await run(client, args, interrupted.signal);
  } catch (error) {
    // The end that was asked for.
    if (!interrupted.signal.aborted) throw error;
  } finally {
    await client.close();
  }
}

function run(client: ZkClient, args: Arguments, signal: AbortSignal): Promise<void> {
  switch (args.command) {
    case 'locks':
      return locks(client, args, print);
    case 'leaders':
      return leaders(client, args, print);
    case 'watch':
      return watch(client, args, print, { signal, terminal: process.stdout.isTTY });
    case 'revoke':
      return revokeLock(client, args, print);
  }
}

function print(text: string): void {
  process.stdout.write(text);
}

// Whoever read it has seen enough, as `head` has.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  process.exit(error.code === 'EPIPE' ? 0 : FAILED);
});

main().catch((error: unknown) => {
  if (error instanceof UsageError || error instanceof BadOptionError) {
    process.stderr.write(`nestjs-zookeeper: ${error.message}\nTry nestjs-zookeeper --help\n`);
    process.exitCode = NOT_UNDERSTOOD;
    return;
  }
  const expected = error instanceof CoordinationError || error instanceof Failure;
  const said = expected ? error.message : error instanceof Error ? error.stack : String(error);
  process.stderr.write(`nestjs-zookeeper: ${said}\n`);
  process.exitCode = FAILED;
});
