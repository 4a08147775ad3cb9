import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { completionScript } from '../../lib/cli/completion.js';
import { makeProgram } from '../../lib/cli/program.js';
import { runCli } from '../support/cli.js';

const folder = mkdtempSync(join(tmpdir(), 'completion-'));
/** The shells write their history into the folder. */
const OPTIONS = {
  cwd: folder,
  env: { ...process.env, HOME: folder },
  encoding: 'utf8',
  timeout: 60_000,
} as const;
afterAll(() => rmSync(folder, { recursive: true }));

const example = makeProgram((program) => {
  program
    .command('run')
    .description("run a command; it's [an] example: this")
    .option('--lock <key>', "the lock's key [a: b]")
    .option('--read', 'read')
    .argument('<command>')
    .argument('[args...]');
  program
    .command('serve')
    .description('serve')
    .option('-p, --port <port>')
    .option('--ca <file>')
    .option('--data <dir>')
    .addOption(program.createOption('--format <name>').choices(['json', 'text']));
  program.command('paint').addArgument(program.createArgument('<colour>').choices(['red', 'blue']));
});

const COMPLETE_IN_ZSH = fileURLToPath(new URL('complete.zsh', import.meta.url));

const shells = {
  /** A bash reads the line and Alt-*, which inserts all completions. A function prints the words of the line. */
  bash(script: string, line: string): string[] {
    const input = [
      `source ${script}`,
      'nestjs-zookeeper() { printf "word:%s\\n" "$@"; }',
      `nestjs-zookeeper ${line}\x1b*`,
      '',
    ].join('\n');
    const { stdout } = spawnSync('bash', ['--norc', '-i'], { ...OPTIONS, input });
    const words = [...stdout.matchAll(/^word:(.*)$/gm)].map(([, word]) => word!);
    return words.slice(line.split(' ').length - 1);
  },
  zsh(script: string, line: string): string[] {
    const args = ['-f', COMPLETE_IN_ZSH, script, `nestjs-zookeeper ${line}`];
    const { stdout } = spawnSync('zsh', args, OPTIONS);
    return stdout.trim().split('\n');
  },
};

beforeAll(() => {
  mkdirSync(join(folder, 'sub folder'));
  writeFileSync(join(folder, 'server.pem'), '');
});

describe.each(['bash', 'zsh'] as const)('completion in %s', (shell) => {
  const script = join(folder, `script.${shell}`);
  beforeAll(() => writeFileSync(script, completionScript(example, shell)));
  const complete = (line: string) => [...new Set(shells[shell](script, line))].sort();

  it.each([
    ['a command', '', expect.arrayContaining(['help', 'paint', 'run', 'serve'])],
    ['the start of a command', 'ser', ['serve']],
    ['an option', 'run --l', ['--lock']],
    ['an option after an option with a value', 'run --lock gold --re', ['--read']],
    ['an option after the value of a short option', 'serve -p 80 --fo', ['--format']],
    ['a value from a list', 'serve --format ', ['json', 'text']],
    ['an argument from a list', 'paint b', ['blue']],
    ['the argument of help', 'help p', ['paint']],
    ['a file', 'serve --ca ser', ['server.pem']],
    ['a file after =', 'serve --ca=ser', ['server.pem']],
    ['a program after --', 'run --lock gold -- mkfif', ['mkfifo']],
    ['a file after the program', 'run --lock gold -- cat ser', ['server.pem']],
  ])('completes %s', (_what, line, expected) => {
    // Bash replaces the whole word.
    expect(complete(line).map((word) => word.replace('--ca=', ''))).toEqual(expected);
  });

  it('completes only directories for an option that takes a directory', () => {
    expect(complete('serve --data s')).toEqual([expect.stringMatching(/^sub\\? folder\/?$/)]);
  });

  it('has all commands and options of the program', async () => {
    const { code, out } = await runCli(['completion', shell]);
    expect(code).toBe(0);
    const real = join(folder, `real.${shell}`);
    writeFileSync(real, out);
    const commands = shells[shell](real, '').filter((word) => !word.startsWith('-'));
    expect(commands).toContain('completion');
    for (const command of commands.filter((each) => each !== 'help')) {
      const { out: help } = await runCli(['help', command]);
      const options = [...help.matchAll(/^ {2}(?:-\w, )?(--[\w-]+)/gm)].map(
        ([, option]) => option!,
      );
      expect(shells[shell](real, `${command} --`).sort(), command).toEqual(options.sort());
    }
  });
});
