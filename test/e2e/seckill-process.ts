import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'vitest';
import type { SeckillResult } from '../../sample-app/seckill/result.js';
import { startCommand } from '../support/command.js';

export const INSTANCE = fileURLToPath(new URL('../../dist-sample/instance.js', import.meta.url));

/** Starts the built seckill command with a directory of its own for temporary files. */
export async function startSeckill(...args: string[]) {
  const temporary = await mkdtemp(join(tmpdir(), 'seckill-test-'));
  const env = { ...process.env, TMPDIR: temporary };
  const { child, output, ended } = startCommand('dist-sample/seckill.js', args, env);
  return {
    child,
    /** Resolves with the output and with the temporary files that the command left behind. */
    ended: ended.then(async (end) => {
      const left = await readdir(temporary);
      await rm(temporary, { recursive: true });
      return { ...end, left };
    }),
    /** Resolves when stderr contains the text. */
    says: async (text: RegExp) => {
      await expect.poll(() => output.stderr, { interval: 10 }).toMatch(text);
    },
    instancePids: () =>
      [...output.stderr.matchAll(/^instance \d+: .* pid (\d+)$/gm)].map(([, pid]) => Number(pid)),
  };
}

export async function seckill(...args: string[]) {
  const ended = await (await startSeckill('--json', ...args)).ended;
  if (!ended.stdout) throw new Error(ended.stderr);
  return { ...ended, result: JSON.parse(ended.stdout) as SeckillResult };
}

/** Checks that a sale oversells without the lock, and sells exactly the stock with it. */
export async function expectExactSale(...args: string[]): Promise<void> {
  const { code, result } = await seckill('--buyers', '300', '--items', '30', ...args);
  const exactly = { requests: 300, orders: 30, stockLeft: 0, oversold: 0, errors: 0 };
  expect(result.locked).toMatchObject(exactly);
  expect(result.unlocked.oversold).toBeGreaterThan(0);
  expect(code).toBe(0);
}
