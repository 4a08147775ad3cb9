// A headless Chromium and the shop of `npm start` for it to look at.
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const MAIN = fileURLToPath(new URL('../dist-sample/main.js', import.meta.url));

const FLAGS = [
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

/** The browser's program, where there is one. */
export const CHROMIUM = [process.env.CHROMIUM, '/usr/bin/chromium'].find(
  (file) => file && existsSync(file),
);

/** Without a sandbox, since it opens no page but ours; its profile is a directory of its own that goes with it. */
export async function launchBrowser() {
  const { chromium } = await import('playwright-core');
  return chromium.launch({ executablePath: CHROMIUM, chromiumSandbox: false, args: FLAGS });
}

/** The built shop in a process of its own: its address, and what stops it. */
export async function openShop(env = {}) {
  const shop = spawn(process.execPath, [MAIN], {
    env: { ...process.env, PORT: '0', ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const stop = async () => {
    if (shop.exitCode !== null || shop.signalCode !== null) return;
    const exited = new Promise((resolve) => shop.once('exit', resolve));
    shop.kill('SIGTERM');
    await exited;
  };
  let log = '';
  for await (const chunk of shop.stdout.iterator({ destroyOnReturn: false })) {
    log += chunk;
    const url = /The shop is open at (\S+)\. Try:/.exec(log)?.[1];
    if (!url) continue;
    shop.stdout.resume();
    return { url, stop };
  }
  throw new Error(`the shop did not open: ${log}`);
}
