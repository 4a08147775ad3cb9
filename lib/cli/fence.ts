import { type Command, Option } from 'commander';
import { FENCE_DIALECTS, type FenceDialect, fenceTable } from '../fence/sql.js';

/** Adds the command `fence`. */
export function addFenceCommand(program: Command): void {
  program
    .command('fence')
    .description('print the SQL of the table that fence() of nestjs-zookeeper/fence needs')
    .addOption(
      new Option('--sql <database>', 'the database').choices(FENCE_DIALECTS).makeOptionMandatory(),
    )
    .addHelpText(
      'after',
      `
Add the output to your migrations, or pass it to the database:
  npx nestjs-zookeeper fence --sql postgres | psql shop`,
    )
    .action(({ sql }: { sql: FenceDialect }) => {
      process.stdout.write(`${fenceTable(sql)};\n`);
    });
}
