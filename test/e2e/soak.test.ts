import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';

const SCRIPT = fileURLToPath(new URL('../../scripts/soak.mjs', import.meta.url));
const SHORT = ['--connects', '50', '--acquires', '3000'];

async function soak(preload?: string) {
  const first = preload ? ['--import', `data:text/javascript,${encodeURIComponent(preload)}`] : [];
  const child = spawn(process.execPath, [SCRIPT, ...SHORT], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, NODE_OPTIONS: first.join(' ') },
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
  }
  const [code] = await once(child, 'close');
  return { code: code as number, output };
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
