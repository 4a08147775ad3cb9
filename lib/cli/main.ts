#!/usr/bin/env node
import { CommanderError } from 'commander';
import { BadOptionError, ConnectionError, CoordinationError } from '../client/index.js';
import { addCompletionCommand } from './completion.js';
import { addDoctorCommand } from './doctor.js';
import { addElectCommand } from './elect.js';
import { addFenceCommand } from './fence.js';
import { ExitCode, Failure } from './exit.js';
import { makeProgram } from './program.js';
import { addRunCommand } from './run.js';
import { warn } from './output.js';
import { addServerCommand } from './server.js';
import { addInspectCommands } from './inspect.js';

const program = makeProgram(
  addRunCommand,
  addElectCommand,
  addInspectCommands,
  addDoctorCommand,
  addServerCommand,
  addFenceCommand,
  addCompletionCommand,
);

// The reader closed the pipe, as `head` does.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  process.exit(error.code === 'EPIPE' ? ExitCode.ok : ExitCode.failed);
});

// An exit code must not depend on a place for the messages.
process.stderr.on('error', () => {});

try {
  await program.parseAsync();
} catch (error) {
  process.exitCode = report(error);
}

/** Prints an error. Returns the exit code. */
function report(error: unknown): number {
  // Commander has printed it already, with the help or a hint.
  if (error instanceof CommanderError) return error.exitCode === 0 ? ExitCode.ok : ExitCode.usage;
  const expected = error instanceof CoordinationError || error instanceof Failure;
  const message = expected ? error.message : error instanceof Error ? error.stack! : String(error);
  warn(message);
  if (error instanceof Failure) return error.exitCode;
  if (error instanceof ConnectionError) return ExitCode.noConnection;
  return error instanceof BadOptionError ? ExitCode.usage : ExitCode.failed;
}
