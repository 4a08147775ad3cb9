import { describe, expect, it } from 'vitest';
import { completionScript } from '../../../lib/cli/completion.js';
import { FENCE_DIALECTS, fenceTable } from '../../../lib/fence/sql.js';
import { makeProgram, VERSION } from '../../../lib/cli/program.js';
import { runCli } from '../../support/cli.js';

/** Runs a command that does not find an ensemble. */
const cli = (...args: string[]) => runCli(args, { ZOOKEEPER: '127.0.0.1:1' });

describe('the help', () => {
  it.each(['--version', '-V'])('prints the version with %s', async (option) => {
    expect(await cli(option)).toEqual({ code: 0, out: `${VERSION}\n`, err: '' });
  });

  it('lists the commands, without arguments as an error', async () => {
    const help = await cli('--help');
    expect(help).toMatchObject({ code: 0, err: '' });
    expect(help.out).toMatch(/^ {2}server .+ run a ZooKeeper server/m);
    expect(help.out).toMatch(/^ {2}completion <shell> +print a completion script/m);
    for (const option of ['help', '-h']) expect(await cli(option)).toEqual(help);
    expect(await cli()).toEqual({ code: 2, out: '', err: help.out });
    expect(await cli('help', 'nothing')).toEqual({ code: 2, out: '', err: help.out });
  });

  it('describes a command', async () => {
    const help = await cli('help', 'server');
    expect(help).toMatchObject({ code: 0, err: '' });
    expect(help.out).toMatch(/^Usage: nestjs-zookeeper server \[options\]\n/);
    expect(help.out).toContain('--port <number>');
    expect(await cli('server', '--help')).toEqual(help);
  });
});

describe('the command line', () => {
  it.each([
    ['servr', "unknown command 'servr'\n(Did you mean server?)"],
    ['server --prot 0', "unknown option '--prot'\n(Did you mean --port?)"],
    ['server --port', "option '--port <number>' argument missing"],
    ['server --port 70000', "argument '70000' is invalid. It must be a port, from 0 to 65535"],
    ['server --port 2181x', "argument '2181x' is invalid. It must be a port, from 0 to 65535"],
    ['server --host ', '--host must be an address to listen on, got ""'],
    ['server --data ', 'a directory'],
    ['server --tick-time 9ms', '--tick-time must be between 10 and 60000, got 9'],
    [
      'server --min-session-timeout 2s --max-session-timeout 1s',
      '--max-session-timeout must be between 2000 and 2147483647, got 1000',
    ],
    ['server --four-letter-words envi ruo', '--four-letter-words must be an array of *, conf, '],
    [
      'server --super-digest root:secret',
      '--super-digest must be a user, a colon and a SHA-1 hash',
    ],
    ['server --tick-time 20', 'a duration such as'],
    ['server --server etcd', 'Allowed choices are zookeeper, clickhouse-keeper.'],
    ['fence', "required option '--sql <database>' not specified"],
    ['fence --sql oracle', 'Allowed choices are postgres, mysql, mariadb, sqlite.'],
    ['completion fish', 'Allowed choices are bash, zsh.'],
    ['revoke', "missing required argument 'key|path'"],
    ['revoke /', 'It must be the path of a znode below the root.'],
    ['locks x', 'too many arguments'],
    ['locks --every 500ms', "unknown option '--every'"],
    ['watch --every 500', 'It must be a duration such as 500ms'],
    ['watch --every 50ms', 'It must be at least 100ms.'],
    ['locks --path x', "argument 'x' is invalid. It must be the path of a znode"],
    ['locks --path /x --namespace y', 'cannot be used with option'],
    ['locks --auth digest:secret', 'the credentials must be digest:user:password'],
    ['locks --ca /nowhere.pem', '--ca: ENOENT'],
    ['locks --zookeeper a:b', '--zookeeper must be'],
    ['locks --zookeeper shop:secret@zk1', '--zookeeper must be hosts without credentials'],
    ['locks --namespace a//b', '--namespace must be'],
    ['run true', "required option '--lock <key>' not specified"],
    ['run --loc a true', "unknown option '--loc'\n(Did you mean --lock?)"],
    ['elect --elect a true', "unknown option '--elect'\n(Did you mean --election?)"],
    ['run --lock a', "missing required argument 'command'"],
    ['run --lock  true', '--lock must be a non-empty string'],
    ['run --lock /a/ true', '--lock must be a znode path without a slash at its end'],
    ['run --lock a --wait 3 true', "'--wait <duration>' argument '3' is invalid"],
    ['run --lock a --semaphore 0 true', "argument '0' is invalid"],
    ['run --lock a --read --write true', "'--read' cannot be used with option"],
    ['run --lock a --hold-at-most 0 true', 'It must be longer than 0.'],
    [
      'run --lock a --hold-at-least 2s --hold-at-most 1s true',
      '--hold-at-least must not be longer than --hold-at-most',
    ],
    ['run --lock -- true', '--lock is followed by --, not by a value'],
    ['run --lock a ', 'the command is an empty string'],
    ['run --lock / true', '--lock must be a znode below the root'],
    ['elect --election / true', '--election must be a znode below the root'],
    ['elect true', "required option '--election <name>' not specified"],
  ])('rejects %j', async (line, message) => {
    const { code, out, err } = await cli(...line.split(' '));
    expect([code, out]).toEqual([2, '']);
    expect(err).toMatch(/^nestjs-zookeeper: /);
    expect(err).toContain(message);
    expect(err).not.toContain('secret');
  });

  it.each(['locks', 'doctor', 'run --lock a true'])('%s requires an ensemble', async (line) => {
    const args = line.split(' ');
    expect(await runCli(args, { ZOOKEEPER: '' })).toMatchObject({
      code: 2,
      err: expect.stringContaining('--zookeeper is missing'),
    });
  });
});

it.each(FENCE_DIALECTS)('fence --sql %s prints the statement of fenceTable()', async (dialect) => {
  const out = `${fenceTable(dialect)};\n`;
  expect(await cli('fence', '--sql', dialect)).toEqual({ code: 0, out, err: '' });
});

describe('a completion script', () => {
  const program = makeProgram((made) => {
    made
      .command('serve')
      .description("it's [an] example: this")
      .option('-p, --port <port>', "the server's port [a: b]")
      .option('--ca <file>')
      .option('--data <dir>')
      .addOption(made.createOption('--format <name>').choices(['json', 'text']));
    made.command('paint').addArgument(made.createArgument('<colour>').choices(['red', 'blue']));
  });

  it('of bash completes commands, options, their values and arguments', () => {
    const script = completionScript(program, 'bash');
    for (const line of [
      "words='serve paint help -V --version -h --help'",
      "serve) words='-p --port --ca --data --format -h --help' ;;",
      "paint) words='red blue -h --help' ;;",
      "help) words='serve paint help' ;;",
      "'serve -p' | 'serve --port') return ;;",
      "'serve --ca') compopt -o default 2>/dev/null; return ;;",
      "'serve --data') compopt -o dirnames 2>/dev/null; return ;;",
      `'serve --format') COMPREPLY=($(compgen -W 'json text' -- "$current")); return ;;`,
      'complete -o default -F _nestjs_zookeeper nestjs-zookeeper\n',
    ]) {
      expect(script).toContain(line);
    }
  });

  it('of zsh escapes descriptions', () => {
    const script = completionScript(program, 'zsh');
    for (const text of [
      "'serve:it'\\''s [an] example: this'",
      "'(-p --port)--port=[the server'\\''s port \\[a: b\\]]:port: '",
      "'--ca=[]:ca:_files'",
      "'--data=[]:data:_files -/'",
      "'--format=[]:format:(json text)'",
      "':colour:(red blue)'",
    ]) {
      expect(script).toContain(text);
    }
  });

  it.each(['bash', 'zsh'])('of %s has the options of the program', async (shell) => {
    const { code, out } = await cli('completion', shell);
    expect(code).toBe(0);
    for (const word of ['doctor', 'watch', '--election', '--hold-at-least']) {
      expect(out).toContain(word);
    }
  });
});
