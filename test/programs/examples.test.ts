import { spawn } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { freePorts } from '../../scripts/faults/real-server.mjs';
import { inScratch, root, run } from '../../scripts/packed.mjs';
import { collectOutput, startCommand } from '../support/command.js';
import { eventually } from '../support/eventually.js';
import { runCopy } from '../support/example-copies.js';

describe('the examples', () => {
  it.concurrent(
    'bullmq: two consumers never have two orders of one customer in work',
    async ({ onTestFinished }) => {
      const [port] = await freePorts(1);
      const redis = spawn('redis-server', [
        '--bind',
        '127.0.0.1',
        '--port',
        `${port}`,
        '--save',
        '',
      ]);
      const { output, ended } = collectOutput(redis);
      try {
        await eventually(() => expect(output.stdout).toContain('Ready to accept connections'));
        const env = { ...process.env, REDIS_URL: `redis://127.0.0.1:${port}` };
        const example = startCommand('dist-examples/bullmq/start.js', [], env);
        onTestFinished(() => void example.child.kill());
        const { code, stdout } = await example.ended;
        const lines = stdout.matchAll(/^process (\d+) (begins|ends) order (\d+) of (\w+)$/gm);
        const events = [...lines].map(([, pid, event, order, customer]) => {
          return { pid, event, order, customer };
        });
        expect(events).toHaveLength(16);
        expect(new Set(events.map(({ pid }) => pid)).size).toBe(2);
        for (const customer of ['Ann', 'Bob']) {
          const own = events.filter((each) => each.customer === customer);
          for (let at = 0; at < own.length; at += 2) {
            expect(own[at]).toMatchObject({ event: 'begins' });
            expect(own[at + 1]).toEqual({ ...own[at], event: 'ends' });
          }
        }
        expect(code).toBe(0);
      } finally {
        redis.kill();
        await ended;
      }
    },
  );

  it.concurrent('prisma-fence: the database refuses the process that was paused', async () => {
    const stdout = await runCopy('prisma-fence', 'start', {
      // With the path of any program, Prisma does not download its engine for migrations, which this example has none of.
      PRISMA_SCHEMA_ENGINE_BINARY: process.execPath,
    });
    expect(stdout).toMatch(
      /^process (\d+) has the lock .*\nprocess (?!\1)\d+ has sold a phone, 9 are left\n[^]*process \1 .* refused: StaleLeaseError: /m,
    );
  });

  it.concurrent(
    'prometheus: promtool accepts the rules, their tests, and the queries of the dashboard',
    async () => {
      const directory = join(root, 'examples/prometheus');
      await run('promtool', ['check', 'rules', 'rules.yml'], { cwd: directory });
      await run('promtool', ['test', 'rules', 'rules.test.yml'], { cwd: directory });

      const dashboard = JSON.parse(await readFile(join(directory, 'dashboard.json'), 'utf8')) as {
        panels: { targets: { expr: string }[] }[];
      };
      const rules = dashboard.panels
        .flatMap(({ targets }) => targets)
        // Grafana replaces its variables before it asks Prometheus.
        .map(({ expr }) => expr.replaceAll('$__rate_interval', '1m'))
        .map((expr, index) => ({ record: `panel${index}`, expr }));
      expect(rules.length).toBeGreaterThan(8);
      await inScratch(async (scratch) => {
        const file = join(scratch, 'queries.json');
        await writeFile(file, JSON.stringify({ groups: [{ name: 'queries', rules }] }));
        await run('promtool', ['check', 'rules', file]);
      });
    },
  );
});
