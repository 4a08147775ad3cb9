import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { RawClient } from '../../support/raw-client.js';
import { freePort, RealZooKeeper, untilServing } from '../../support/real-zookeeper.js';
import { useServerCommand } from '../../support/server-command.js';
import { Recorder } from '../../support/server-recorder.js';
import { PATHS, randomOperations } from '../../support/server-script-random.js';
import { sessionScenarios } from '../../support/server-script-sessions.js';
import type { Scenario } from '../../support/server-script.js';

/** Returns what the clients of a script receive. After a restart, our zxids begin higher: only their order is compared. */
async function transcriptOf(port: number, restart: () => Promise<unknown>, scenario: Scenario) {
  const recorder = new Recorder(port, async () => {
    await restart();
    // The first write after the restart. Until then, replies have the last zxid of before, or our higher one.
    await (await RawClient.connect({ port })).drop();
  });
  await scenario(recorder);
  const transcript = JSON.stringify(await recorder.finish());
  const zxids = new Set(transcript.match(/(?<="\+)\d+(?=")/g)?.map(Number));
  const order = [...zxids].sort((a, b) => a - b);
  return transcript.replaceAll(/(?<="\+)\d+(?=")/g, (zxid) => String(order.indexOf(Number(zxid))));
}

describe('nestjs-zookeeper server --data after kill -9 behaves as Apache ZooKeeper. It', () => {
  const start = useServerCommand();
  let data: string;
  beforeEach(() => (data = mkdtempSync(join(tmpdir(), 'data-'))));
  afterEach(() => rmSync(data, { recursive: true, force: true }));

  async function ours(scenario: Scenario) {
    const port = await freePort();
    const args = ['--data', data, '--port', String(port), '--json', '--tick-time', '500ms'];
    let server = start(...args);
    await server.started;
    const restart = async () => {
      server.child.kill('SIGKILL');
      await server.ended;
      server = start(...args);
      await server.started;
    };
    return transcriptOf(port, restart, scenario);
  }

  async function theirs(scenario: Scenario) {
    const server = await RealZooKeeper.start();
    try {
      await untilServing(server.port);
      const restart = async () => {
        await server.stop('SIGKILL');
        await server.start();
        await untilServing(server.port);
      };
      return await transcriptOf(server.port, restart, scenario);
    } finally {
      await server.dispose();
    }
  }

  const afterRandomOperations: Scenario = async (server) => {
    await randomOperations(server, 7, 600);
    await server.restartServer();
    const zk = await server.connect('e');
    for (const path of [...PATHS, '/', '/zookeeper/config']) {
      await zk.exists(path, false, 'any');
      await zk.get(path, false, 'any');
      await zk.getAcl(path, 'any');
      await zk.children2(path, false, 'any');
    }
    await randomOperations(server, 8, 100);
  };

  test.each([
    [
      'keeps its tree and its sessions',
      sessionScenarios['keeps its tree and its sessions over a restart']!,
    ],
    ['has the state of random operations', afterRandomOperations],
  ])('%s', async (_name, scenario) => {
    const [our, their] = await Promise.all([ours(scenario), theirs(scenario)]);
    expect(our.length).toBeGreaterThan(1_000);
    expect(JSON.parse(our)).toEqual(JSON.parse(their));
  });
});
