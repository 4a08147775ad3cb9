import { once } from 'node:events';
import { describe, expect, it } from 'vitest';
import { startCommand } from '../support/command.js';
import { childrenOf, running } from '../support/processes.js';

// What the commands of package.json have in common. Each has a test file of its own too.

const CHAOS = 'dist-scripts/chaos.mjs';
const FAILOVER = 'dist-scripts/failover.mjs';
const HERD = 'dist-scripts/herd.mjs';
const BENCH = 'dist-scripts/bench/main.mjs';
const PARTITIONS = 'dist-sample/partitions.js';
const SIMULATE = 'dist-scripts/simulation/main.js';
const TEST = 'scripts/test.mjs';

/** A slow network, so that the run does not end before it is interrupted. */
const SLOW = ['--server', 'embedded', '--latency', '50'];

it.each([
  [CHAOS, '--minutes', '0'],
  [CHAOS, '--seed', '1.5'],
  [CHAOS, '--workers', '1'],
  [CHAOS, '--server', 'real'],
  [CHAOS, '--transport', 'pigeon'],
  [CHAOS, '--loud'],
  [FAILOVER, '--kills=-1'],
  [FAILOVER, '--resignations', '1.5'],
  [FAILOVER, '--drops', 'many'],
  [FAILOVER, '--latency', '101'],
  [FAILOVER, '--loud'],
  [FAILOVER, '5'],
  [HERD, '--waiters', '0'],
  [HERD, '--waiters', '1,,2'],
  [HERD, '--waiters', '101'],
  [HERD, '--zookeeper', 'localhost'],
  [HERD, '--zookeeper', 'localhost:65536'],
  [HERD, '--loud'],
  [BENCH, '--cases', 'hot-65'],
  [BENCH, '--seconds', '0'],
  [BENCH, '--repetitions', '1.5'],
  [BENCH, '--write', '--cases=hot-64'],
  [BENCH, '--write', '--servers=3'],
  [BENCH, '--write', '--quick'],
  [BENCH, '--servers', '6'],
  [PARTITIONS, '--processes', '1'],
  [PARTITIONS, '--zookeeper', 'nowhere'],
  [PARTITIONS, '--loud'],
  // The other options are tested in test/unit/scripts/simulate-command.test.ts.
  [SIMULATE, '--faults', '999', '--seed', '1'],
  [TEST, '--project', 'pigeon'],
  [TEST, '--loud'],
])('%s rejects %s %s', async (script, ...args) => {
  const { code, stdout, stderr } = await startCommand(script, args).ended;
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
  expect(stderr).toContain(args[0]!.split('=')[0]);
});

describe('when it is interrupted, it ends its processes:', () => {
  it.each<[string, string[], number, number, RegExp]>([
    [CHAOS, ['--seed', '5', '--server', 'embedded'], 4, 1, /^FAILED with --seed 5: interrupted\n$/],
    [FAILOVER, SLOW, 3, 1, /^FAILED: interrupted\n$/],
    [PARTITIONS, ['--rounds', '100'], 4, 130, /interrupted, all processes have ended/],
  ])('%s %j', async (script, args, processes, expected, message) => {
    const { child, ended } = startCommand(script, args);
    await expect.poll(() => childrenOf(child.pid!)).toHaveLength(processes);
    const children = childrenOf(child.pid!);
    if (script === PARTITIONS) await once(child.stdout, 'data');
    child.kill('SIGINT');
    const { code, stderr } = await ended;
    expect(code).toBe(expected);
    expect(stderr).toMatch(message);
    expect(running(children)).toEqual([]);
  });
});
