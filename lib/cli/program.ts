import { readFileSync } from 'node:fs';
import { Command } from 'commander';

const file = new URL('../../package.json', import.meta.url);

/** The version of this package. */
export const VERSION = (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version;

/** Each file of commands adds its own to the program. */
type AddCommands = (program: Command) => void;

/** Makes the program. Its commands throw {@link Failure} for expected failures, and CommanderError for a wrong command line. */
export function makeProgram(...parts: readonly AddCommands[]): Command {
  const program = new Command('nestjs-zookeeper')
    .description('Runs commands under ZooKeeper locks, and lists holders, waiters and leaders.')
    .version(VERSION)
    .helpCommand('help [command]', 'show the help of a command')
    .showSuggestionAfterError()
    .configureOutput({
      outputError: (text, write) => write(text.replace(/^error: /, 'nestjs-zookeeper: ')),
    })
    // The options after the command of `run` are its own.
    .enablePositionalOptions()
    .exitOverride();
  for (const add of parts) add(program);
  for (const command of program.commands) command.exitOverride();
  return program;
}
