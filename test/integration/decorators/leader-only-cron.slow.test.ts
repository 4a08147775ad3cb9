import { type ChildProcess, spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import type { Tick } from '../../support/cron-instance.js';
import { useServer } from '../../support/servers.js';

const zk = useServer();
const SESSION_TIMEOUT = 4_000;
/** Session timeout and tick of both servers. A session expires up to two ticks late. */
const SERVER_TICK = 500;
/** The length of the observation in seconds. */
const SECONDS = Number(process.env.CRON_TICKS ?? 13);
/**
 * The number of those seconds after the leader is killed: longer than a failover, even if the
 * machine stalls.
 */
const SECONDS_AFTER = Math.max(9, Math.floor(SECONDS / 2));

let program: string;
beforeAll(async () => {
  const source = await readFile(new URL('../../support/cron-instance.ts', import.meta.url), 'utf8');
  program = ts.transpileModule(source, {
    compilerOptions: {
      target: ts.ScriptTarget.ES2023,
      module: ts.ModuleKind.ESNext,
      experimentalDecorators: true,
      emitDecoratorMetadata: true,
    },
  }).outputText;
});

/** Starts the application as a process that uses the built library. */
function start(options: object, onTick: (tick: Tick) => void): ChildProcess {
  const child = spawn(process.execPath, ['--input-type=module', '--eval', program], {
    // From this directory it resolves the library by its package name.
    cwd: fileURLToPath(new URL('../../../', import.meta.url)),
    env: { ...process.env, ZK_OPTIONS: JSON.stringify(options) },
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  return child.on('message', onTick);
}

/** The reports of three instances, by second and instance. */
class History {
  readonly #seconds = new Map<number, Map<number, Tick>>();
  readonly twice: number[] = [];
  readonly latest: number[] = [0, 0, 0];

  add(instance: number, tick: Tick): void {
    const ticks = this.#seconds.get(tick.second) ?? new Map<number, Tick>();
    if (ticks.has(instance)) this.twice.push(tick.second);
    this.#seconds.set(tick.second, ticks.set(instance, tick));
    this.latest[instance] = tick.second;
  }

  /** Returns the instances that ran the job in that second. */
  runs(second: number): number[] {
    const ticks = [...(this.#seconds.get(second) ?? [])];
    return ticks.filter(([, { token }]) => token !== undefined).map(([instance]) => instance);
  }

  ticked(second: number, instance: number): boolean {
    return this.#seconds.get(second)?.has(instance) ?? false;
  }

  /** Returns the fencing tokens of the terms, in the order in which their jobs ran. */
  get tokens(): bigint[] {
    const inOrder = [...this.#seconds].sort(([a], [b]) => a - b);
    const ran = inOrder.flatMap(([, ticks]) => [...ticks.values()]).filter(({ token }) => token);
    return [...new Set(ran.map(({ token }) => BigInt(token!)))];
  }
}

const range = (first: number, last: number) =>
  Array.from({ length: Math.max(0, last - first + 1) }, (_, index) => first + index);

describe('a @LeaderOnly cron job on three instances', () => {
  it(
    `runs once per second for ${SECONDS} s, except during the failover after the leader is killed`,
    async () => {
      const history = new History();
      let killed: { instance: number; at: number } | undefined;
      let first: number | undefined;
      const pauses = monitorEventLoopDelay({ resolution: 10 });
      pauses.enable();
      await new Promise<void>((resolve) => {
        const options = {
          connectString: zk.connectString,
          sessionTimeout: SESSION_TIMEOUT,
          namespace: zk.path('cron'),
        };
        const instances = [0, 1, 2].map((instance) =>
          start(options, (tick) => {
            history.add(instance, tick);
            if (tick.token !== undefined) first ??= tick.second;
            if (first === undefined) return;
            const last = first + SECONDS - 1;
            if (!killed && tick.token !== undefined && tick.second >= last - SECONDS_AFTER) {
              instances[instance]!.kill('SIGKILL');
              killed = { instance, at: Date.now() };
            }
            const over = (second: number, index: number) =>
              index === killed?.instance || second >= last;
            if (killed && history.latest.every(over)) resolve();
          }),
        );
      });
      pauses.disable();

      const last = first! + SECONDS - 1;
      const { instance: leader, at } = killed!;
      const middle = history.latest[leader]!;
      expect(history.twice).toEqual([]);

      // The run of a second may be missing only if the leader's own clock did not tick in it.
      const lateBy = (instance: number, from: number, to: number) =>
        range(from, to).filter((second) => !history.ticked(second, instance));
      const lackingIn = (from: number, to: number) =>
        range(from, to).filter((second) => history.runs(second).length === 0);
      const secondsOf = (instance: number, from: number, to: number) =>
        range(from, to).filter((second) => history.runs(second).includes(instance));

      const lateBefore = lateBy(leader, first!, middle);
      expect(lackingIn(first!, middle)).toEqual(lateBefore);
      const resumed = range(middle + 1, last).find((second) => history.runs(second).length > 0)!;
      expect(resumed).toBeDefined();
      const [next] = history.runs(resumed) as [number];
      const lateAfter = lateBy(next, resumed, last);
      expect(lackingIn(resumed, last)).toEqual(lateAfter);
      expect(lateBefore.length + lateAfter.length).toBeLessThanOrEqual(Math.max(4, SECONDS / 10));

      const ran = [...secondsOf(leader, first!, middle), ...secondsOf(next, resumed, last)];
      for (const second of ran) expect(history.runs(second)).toHaveLength(1);
      const failover = range(middle + 1, resumed - 1);
      console.log(
        `${ran.length} of ${SECONDS} ticks ran, each once; ${failover.length} lost to the failover, ${lateBefore.length + lateAfter.length} to late clocks`,
      );
      // While the machine stalls no session expires, and no instance takes over.
      const limit = SESSION_TIMEOUT + 2 * SERVER_TICK + pauses.max / 1e6;
      for (const second of failover) expect(second * 1000 - at).toBeLessThanOrEqual(limit);
      expect(ran.length + failover.length + lateBefore.length + lateAfter.length).toBe(SECONDS);

      const [before, after] = history.tokens;
      expect(history.tokens).toHaveLength(2);
      expect(after).toBeGreaterThan(before!);
    },
    (SECONDS + 50) * 1000,
  );
});
