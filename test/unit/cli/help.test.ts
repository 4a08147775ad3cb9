import { describe, expect, it } from 'vitest';
import { VERSION } from '../../../lib/cli/version.js';
import { startCommand } from '../../support/command.js';

const cli = (...args: string[]) => startCommand('dist/cli/main.js', args).ended;

describe('nestjs-zookeeper', () => {
  it.each([['--version'], ['-V']])('prints its version with %s', async (option) => {
    expect(await cli(option)).toEqual({ code: 0, stdout: `${VERSION}\n`, stderr: '' });
  });

  it.each([[['help']], [['--help']], [['-h']]])('lists its commands with %j', async (args) => {
    const { code, stdout, stderr } = await cli(...args);
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout).toMatch(/^ {2}server .+ run a ZooKeeper server/m);
    expect(stdout).toMatch(/^ {2}completion <shell> +print a completion script/m);
  });

  it('lists its commands without arguments, as an error', async () => {
    const { code, stdout, stderr } = await cli();
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toBe((await cli('--help')).stdout);
  });

  it('prints the help of a command', async () => {
    const help = await cli('help', 'server');
    expect(help).toMatchObject({ code: 0, stderr: '' });
    expect(help.stdout).toMatch(/^Usage: nestjs-zookeeper server \[options\]\n/);
    expect(help.stdout).toContain('--port <number>');
    expect(await cli('server', '--help')).toEqual(help);
  });

  it('fails if help is asked for a command that does not exist', async () => {
    const { code, stdout, stderr } = await cli('help', 'nothing');
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toContain('Commands:');
  });

  it.each([
    [['servr'], "unknown command 'servr'\n(Did you mean server?)\n"],
    [['server', '--prot', '0'], "unknown option '--prot'\n(Did you mean --port?)\n"],
    [['--versoin'], "unknown option '--versoin'\n(Did you mean --version?)\n"],
    [['server', '--port'], "option '--port <number>' argument missing\n"],
    [['completion'], "missing required argument 'shell'\n"],
  ])('rejects %j', async (args, message) => {
    const expected = { code: 2, stdout: '', stderr: `nestjs-zookeeper: ${message}` };
    expect(await cli(...args)).toEqual(expected);
  });
});
