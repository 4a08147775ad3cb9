import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ZkClient } from 'nestjs-zookeeper/recipes';
import type { Check, Report } from '../../lib/cli/doctor/report.js';
import { Ensemble } from '../../scripts/faults/ensemble.js';
import { useCli } from '../support/cli.js';
import { eventually } from '../support/eventually.js';

const TICK_TIME = 500;

// Three real servers, which are stopped one after the other: the tests depend on their order.
describe('doctor on an ensemble', () => {
  let ensemble: Ensemble;
  beforeAll(async () => {
    ensemble = await Ensemble.start({ tickTime: TICK_TIME });
  });
  afterAll(() => ensemble?.stop());

  const cli = useCli({
    get connectString() {
      return ensemble.ports.map((port) => `127.0.0.1:${port}`).join();
    },
  });

  async function examine(
    sessionTimeout = '10s',
  ): Promise<{ code: number; report: Report; lines: string }> {
    const args = ['doctor', '--json', '--session-timeout', sessionTimeout];
    const { code, out, err } = await cli(args).ended;
    expect(err).toBe('');
    const report = JSON.parse(out) as Report;
    const bad = report.checks.filter(({ status }) => status !== 'ok');
    return { code, report, lines: JSON.stringify(bad, null, 2) };
  }

  const of = ({ checks }: Report, name: Check['check']) =>
    checks.filter(({ check }) => check === name);

  async function znodes(): Promise<string[]> {
    const connectString = ensemble.ports.map((port) => `127.0.0.1:${port}`).join();
    const client = new ZkClient({ connectString, retry: { type: 'forever', delay: 100 } });
    try {
      await client.connect();
      await client.sync('/');
      return (await client.children('/')).children;
    } finally {
      await client.close();
    }
  }

  it('finds nothing to change while all servers run', async () => {
    const before = await znodes();
    const { code, report, lines } = await examine();
    expect(code, lines).toBe(0);
    expect(
      of(report, 'server')
        .map(({ data }) => data!.mode)
        .sort(),
    ).toEqual(['follower', 'follower', 'leader']);
    expect(of(report, 'quorum')).toMatchObject([
      { subject: 'quorum', data: { usable: 3, listed: 3, voters: 3, observers: 0 } },
      { subject: 'ensemble', status: 'ok' },
    ]);
    const leader = (await ensemble.leader())!;
    // The servers allow the word `cons`, so each clock is measured.
    expect(of(report, 'clock')).toHaveLength(3);
    expect(of(report, 'clock')[0]).toMatchObject({
      subject: `127.0.0.1:${leader.port}`,
      data: { source: 'znodes' },
    });
    expect(await znodes()).toEqual(before);
  });

  it('finds a limit if the session timeout is shorter than eight ticks', async () => {
    const { report } = await examine('3s');
    const advice = expect.stringContaining('request 4 s');
    const short = { status: 'limit', advice };
    expect(of(report, 'server')).toMatchObject([short, short, short]);
  });

  it('finds a limit if the connect string names one of three servers', async () => {
    const args = ['doctor', '--json', '--session-timeout', '10s'];
    const one = `127.0.0.1:${ensemble.ports[0]}`;
    const { code, out } = await cli([...args, '--zookeeper', one]).ended;
    expect(code).toBe(1);
    expect(of(JSON.parse(out) as Report, 'quorum')).toMatchObject([
      { status: 'limit', advice: expect.stringContaining('name all 3 voters') },
    ]);
  });

  it('finds a limit while one server is down', async () => {
    await ensemble.nodes[0]!.stop();
    await eventually(() => ensemble.quorum(2));
    const { code, report, lines } = await examine();
    expect(code, lines).toBe(1);
    expect(of(report, 'quorum')[0]).toMatchObject({
      status: 'limit',
      data: { usable: 2, listed: 3 },
      advice: expect.stringMatching(
        `^repair 127.0.0.1:${ensemble.ports[0]}, .*: if one more voter fails, no lock is granted$`,
      ),
    });
    const recipes = of(report, 'recipe');
    expect(recipes.length).toBeGreaterThan(10);
    // These servers have ZooKeeper's default: no extended types.
    const others = recipes.filter(({ status }) => status !== 'ok');
    expect(others).toMatchObject([{ subject: 'persistent TTL node', status: 'unavailable' }]);
  });

  it('finds it unusable without a majority', async () => {
    await ensemble.nodes[1]!.stop();
    // The server that is left notices it after a while.
    await expect.poll(() => ensemble.nodes[2]!.mode()).toBeUndefined();
    const { code, report } = await examine();
    expect(code).toBe(2);
    expect(of(report, 'quorum')).toMatchObject([{ status: 'unsafe', data: { usable: 0 } }]);
    const last = of(report, 'server').at(-1)!;
    expect(last.advice).toContain('no contact to a majority of the ensemble');
    for (const { status } of of(report, 'recipe')) expect(status).toBe('unavailable');
  });
});
