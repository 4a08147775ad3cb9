import { expect, it } from 'vitest';
import { startCommand } from '../support/command.js';

const SHORT = ['--connects', '50', '--acquires', '3000'];

async function soak(preload?: string) {
  const first = preload ? `--import data:text/javascript,${encodeURIComponent(preload)}` : '';
  const env = { ...process.env, NODE_OPTIONS: first };
  const { code, stdout, stderr } = await startCommand('scripts/soak.mjs', SHORT, env).ended;
  return { code, output: stdout + stderr };
}

it('npm run soak finds no growth', async () => {
  const { code, output } = await soak();
  expect({ code, output }).toMatchObject({ code: 0 });
}, 60_000);

it('npm run soak finds a process whose memory grows', async () => {
  // Much in any part of the run, however long it takes, but not without end on a busy machine.
  const leak =
    'const kept=[];setInterval(()=>kept.length<200&&kept.push(Array(1e5).fill(0)),40).unref()';
  const { code, output } = await soak(leak);
  expect({ code, output }).toMatchObject({ code: 1, output: expect.stringMatching(/heap/) });
}, 60_000);
