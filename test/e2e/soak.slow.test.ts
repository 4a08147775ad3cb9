import { expect, it, vi } from 'vitest';
import { startCommand } from '../support/command.js';

const SHORT = ['--connects', '50', '--acquires', '3000'];

vi.setConfig({ testTimeout: 400_000 });

async function soak(preload?: string) {
  const first = preload ? `--import data:text/javascript,${encodeURIComponent(preload)}` : '';
  const env = { ...process.env, NODE_OPTIONS: first };
  return startCommand('dist-scripts/soak.mjs', SHORT, env).ended;
}

/**
 * Adds numbers to a list at each measurement, so that the growth does not depend on the speed of
 * the machine.
 */
const leak = (numbers: number) =>
  `const kept=[],{gc}=globalThis;globalThis.gc=()=>{kept.push(Array(${numbers}).fill(0));gc()}`;

it('npm run check:soak finds no growth in the library', async () => {
  const { code, stdout, stderr } = await soak();
  expect({ code, stderr, stdout }).toMatchObject({ code: 0, stderr: '' });
});

it('npm run check:soak finds memory that grows within a part of a round', async () => {
  const { code, stderr } = await soak(leak(1e6));
  expect(code).toBe(1);
  expect(stderr).toMatch(/^FAILED: round 1: mutex: heap grew from \d+ to \d+$/m);
});

it('npm run check:soak finds memory that grows slowly over the rounds', async () => {
  const { code, stderr } = await soak(leak(5e4));
  expect(code).toBe(1);
  expect(stderr).toMatch(/^FAILED: rounds 2 to 3: mutex: heap grew from \d+ to \d+$/m);
  expect(stderr).not.toContain('FAILED: round ');
});
