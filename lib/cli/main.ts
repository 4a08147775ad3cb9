#!/usr/bin/env node
import { BadOptionError, CoordinationError, ZkClient } from '../client/index.js';
import { type Arguments, readArguments, USAGE, UsageError } from './arguments.js';
import { Failure, leaders, locks, revokeLock, watch } from './commands.js';

const FAILED = 1;
const USAGE_ERROR = 2;

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
    // Closing the client on a signal makes pending requests fail.
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

// The reader closed the pipe, as `head` does.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  process.exit(error.code === 'EPIPE' ? 0 : FAILED);
});

main().catch((error: unknown) => {
  if (error instanceof UsageError || error instanceof BadOptionError) {
    process.stderr.write(`nestjs-zookeeper: ${error.message}\nTry nestjs-zookeeper --help\n`);
    process.exitCode = USAGE_ERROR;
    return;
  }
  const expected = error instanceof CoordinationError || error instanceof Failure;
  const message = expected ? error.message : error instanceof Error ? error.stack : String(error);
  process.stderr.write(`nestjs-zookeeper: ${message}\n`);
  process.exitCode = FAILED;
});
