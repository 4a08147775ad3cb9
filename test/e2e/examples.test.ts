import { EmbeddedZooKeeper } from 'nestjs-zookeeper/embedded';
import { describe, expect, it } from 'vitest';
import { freePorts } from '../../scripts/faults/real-server.mjs';
import { startCommand } from '../support/command.js';
import { eventually } from '../support/eventually.js';

describe('the examples', () => {
  it.concurrent(
    'cron: no tick is run twice, although there are three replicas and the leader is killed',
    async ({ onTestFinished }) => {
      const { child, ended, output } = startCommand('dist-examples/cron/start.js', []);
      onTestFinished(() => void child.kill());
      const reports = () =>
        [...output.stdout.matchAll(/ process (\d+): report of (\S+)\n/g)].map(([, pid, tick]) => ({
          pid: Number(pid),
          tick,
        }));
      await eventually(() => expect(reports().length).toBeGreaterThan(1));
      const leader = reports()[0]!.pid;
      process.kill(leader, 'SIGKILL');
      await eventually(() => expect(reports().filter(({ pid }) => pid !== leader)).toHaveLength(2));
      child.kill();
      expect(await ended).toMatchObject({ code: 0 });

      const ticks = reports().map(({ tick }) => tick);
      expect(ticks).toEqual([...new Set(ticks)].sort());
      // Each of the two leaders ran all reports of its time.
      expect(new Set(reports().map(({ pid }) => pid)).size).toBe(2);
    },
  );

  it.concurrent(
    'typeorm-fence: the database refuses the process that was paused',
    async ({ onTestFinished }) => {
      const { child, ended } = startCommand('dist-examples/typeorm-fence/start.js', []);
      onTestFinished(() => void child.kill());
      const { code, stdout } = await ended;
      expect(stdout).toMatch(
        /^process (\d+) has the lock .*\nprocess (?!\1)\d+ has sold a phone, 9 are left\n[^]*process \1 .* refused: StaleLeaseError: /m,
      );
      expect(code).toBe(0);
    },
  );

  it.concurrent(
    'kubernetes: the probe follows the connection, and SIGTERM ends the process',
    async () => {
      await using zookeeper = await EmbeddedZooKeeper.start();
      const [port] = await freePorts(1);
      const { child, ended } = startCommand('dist-examples/kubernetes/main.js', [], {
        ...process.env,
        PORT: String(port),
        ZK_CONNECT_STRING: zookeeper.connectString,
        ZK_SESSION_TIMEOUT: '1000',
        POD_NAME: 'shop-1',
      });
      const call = async (path: string, method = 'GET') => {
        const response = await fetch(`http://127.0.0.1:${port}${path}`, { method });
        return { status: response.status, text: await response.text() };
      };
      await eventually(async () => expect(await call('/health')).toMatchObject({ status: 200 }));
      expect(await call('/orders/7', 'POST')).toEqual({
        status: 201,
        text: 'shop-1 has paid order 7\n',
      });
      await zookeeper.stop();
      await eventually(async () => expect(await call('/health')).toMatchObject({ status: 503 }));
      await zookeeper.restart();
      await eventually(async () => expect(await call('/health')).toMatchObject({ status: 200 }));
      child.kill();
      expect(await ended).toMatchObject({ signal: 'SIGTERM' });
    },
  );
});
