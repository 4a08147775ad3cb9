import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ZkClient } from 'nestjs-zookeeper/recipes';
import type { Report } from '../../lib/cli/doctor.js';
import type { Check } from '../../lib/cli/doctor/servers.js';
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
    const roles = of(report, 'server').map(({ message }) => message.split(', ').at(-1));
    expect(roles.sort()).toEqual(['follower', 'follower', 'leader']);
    expect(of(report, 'ensemble')).toMatchObject([{ status: 'ok' }]);
    expect(of(report, 'quorum')[0]!.message).toContain('2 of the 3 voters');
    // These servers have ZooKeeper's default: no extended types.
    const others = of(report, 'recipe').filter(({ status }) => status !== 'ok');
    expect(others).toMatchObject([{ subject: 'persistent TTL node', status: 'unavailable' }]);
    expect(await znodes()).toEqual(before);
  });

  it('finds a limit if the session timeout is shorter than eight ticks', async () => {
    const { report } = await examine('3s');
    const message = expect.stringContaining('request 4 s');
    expect(of(report, 'timeout')).toMatchObject([{ status: 'limit', message }]);
  });

  it('finds a limit while one server is down', async () => {
    await ensemble.nodes[0]!.stop();
    await eventually(() => ensemble.quorum(2));
    const { code, report, lines } = await examine();
    expect(code, lines).toBe(1);
    const message = expect.stringContaining('2 of 3 listed servers');
    expect(of(report, 'quorum')).toMatchObject([{ status: 'limit', message }]);
    expect(of(report, 'recipe').length).toBeGreaterThan(10);
  });

  it('finds it unusable without a majority', async () => {
    await ensemble.nodes[1]!.stop();
    // The server that is left notices it after a while.
    await expect.poll(() => ensemble.nodes[2]!.mode()).toBeUndefined();
    const { code, report } = await examine();
    expect(code).toBe(2);
    expect(of(report, 'quorum')).toMatchObject([{ status: 'unsafe' }]);
    expect(of(report, 'server').at(-1)!.message).toContain('not currently serving requests');
  });
});
