import { describe, expect, it } from 'vitest';
import { LeaderLatch } from 'nestjs-zookeeper/recipes';
import { useCli } from '../../support/cli.js';
import { useClients, useLinks } from '../../support/clients.js';
import { running } from '../../support/processes.js';
import { untilNodes } from '../../support/recipe-nodes.js';
import { useServer } from '../../support/servers.js';

const server = useServer();
const connect = useClients(server);
const link = useLinks(server);
const start = useCli(server);

/** Runs a script of the shell on the leader of an election. */
const elect = (election: string, script: string, ...options: string[]) =>
  start(['elect', '--election', election, ...options, '--', 'sh', '-c', script]);

/** Prints `leads` with the fencing token, ends with 5 at SIGTERM. */
const LEADS = `
  trap 'echo resigns $ZK_FENCING_TOKEN; exit 5' TERM
  echo leads $ZK_FENCING_TOKEN $$
  while :; do sleep 0.05; done`;

const tokensIn = (out: string, verb: string) =>
  [...out.matchAll(new RegExp(`^${verb} (\\d+)`, 'gm'))].map(([, token]) => BigInt(token!));

describe('the command of elect', () => {
  it('runs on the leader, with the term as environment variables, and its exit code resigns', async () => {
    const namespace = server.path('env');
    const path = `${namespace}/elections/a%2Fb`;
    const client = await connect();
    const print = 'echo $ZK_ELECTION $ZK_LEADER_PATH $ZK_FENCING_TOKEN; read _; exit 7';
    const options = ['--namespace', namespace, '--id', 'host-1'];
    const { child, until, ended } = elect('a/b', print, ...options);
    await until('\n');
    const latch = new LeaderLatch(client, path);
    expect(await latch.participants()).toMatchObject([{ id: 'host-1', isLeader: true }]);
    latch.start();
    child.stdin!.end();
    const { code, out, err } = await ended;
    expect([code, err]).toEqual([7, '']);
    const [, token] = /^a\/b \S+\/elections\/a%2Fb (\d+)\n$/.exec(out)!;
    const { fencingToken } = await latch.await();
    expect(fencingToken).toBeGreaterThan(BigInt(token!));
    await latch.close();
  });

  it('ends with a leader that is killed, and another process starts it', async () => {
    const election = server.path('killed');
    const options = ['--session-timeout', '2s', '--grace', '10s'];
    const leader = elect(election, LEADS, ...options);
    await leader.until('leads');
    const next = elect(election, LEADS, ...options);
    await untilNodes(await connect(), election, 2);
    leader.child.kill('SIGKILL');
    await leader.until('resigns');
    await next.until('leads');
    const pid = Number(/(\d+)\n/.exec(leader.output.out)![1]);
    expect(running([pid])).toEqual([]);
    next.child.kill('SIGTERM');
    expect((await next.ended).code).toBe(5);
  });

  it('is stopped when the lead is lost, and starts again when this process leads again', async () => {
    const election = server.path('lost');
    const network = await link();
    const timeouts = ['--session-timeout', '1s', '--grace', '10s'];
    const options = [...timeouts, '--zookeeper', network.connectString];
    const { child, until, output, ended } = elect(election, LEADS, ...options);
    await until('leads');
    const [first] = tokensIn(output.out, 'leads');
    await network.down();
    await until(`resigns ${first}`);
    await network.up();
    await expect.poll(() => tokensIn(output.out, 'leads')).toHaveLength(2);
    expect(tokensIn(output.out, 'leads')[1]).toBeGreaterThan(first!);
    child.kill('SIGTERM');
    const { code, err } = await ended;
    expect(code).toBe(5);
    expect(err).toMatch(
      /^nestjs-zookeeper: the leadership of election .* was lost: .*; the command is stopped$/m,
    );
    await untilNodes(await connect(), election, 0);
  });

  it('starts again after its end with --restart, until a signal ends the pause', async () => {
    const election = server.path('restart');
    const { child, output, ended } = elect(election, 'echo started; exit 3', '--restart');
    await expect.poll(() => output.err).toContain('starts again in 2s');
    child.kill('SIGTERM');
    expect(await ended).toEqual({
      code: 143,
      out: 'started\nstarted\n',
      err: [1, 2]
        .map((s) => `nestjs-zookeeper: the command has ended with 3; it starts again in ${s}s\n`)
        .join(''),
    });
    await untilNodes(await connect(), election, 0);
  });

  it('does not start again with --restart when a signal has ended it', async () => {
    const { child, until, ended } = elect(server.path('hup'), 'echo started; read _', '--restart');
    await until('started');
    child.kill('SIGHUP');
    expect((await ended).code).toBe(129);
  });

  it('does not start when a signal ends the wait, which leaves no znode', async () => {
    const election = server.path('waits');
    const client = await connect();
    const latch = new LeaderLatch(client, election);
    latch.start();
    await latch.await();
    const { child, ended } = elect(election, 'echo no');
    await untilNodes(client, election, 2);
    child.kill('SIGINT');
    expect(await ended).toEqual({ code: 130, out: '', err: '' });
    await untilNodes(client, election, 1);
    await latch.close();
  });
});
