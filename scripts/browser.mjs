// JavaScript with types in comments: scripts/test.mjs needs this file before anything is compiled.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
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

/** The program of Chromium; undefined where it is not installed. */
export const CHROMIUM = [process.env.CHROMIUM, '/usr/bin/chromium'].find(
  (file) => file && existsSync(file),
);

/** Launches a headless browser. It needs no sandbox, because it opens only this project's pages. */
export async function launchBrowser() {
  const { chromium } = await import('playwright-core');
  return chromium.launch({ executablePath: CHROMIUM, chromiumSandbox: false, args: FLAGS });
}

/**
 * Starts the built sample in a process. Resolves with its address, its process and a function that stops it.
 *
 * @param {NodeJS.ProcessEnv} env
 */
export async function openShop(env = {}) {
  const shop = spawn(process.execPath, [MAIN], {
    env: { ...process.env, PORT: '0', ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const stop = async () => {
    if (shop.exitCode !== null || shop.signalCode !== null) return;
    const exited = once(shop, 'exit');
    shop.kill('SIGTERM');
    await exited;
  };
  let log = '';
  for await (const chunk of shop.stdout.iterator({ destroyOnReturn: false })) {
    log += chunk;
    const url = /The shop is open at (\S+)\. Try:/.exec(log)?.[1];
    if (!url) continue;
    shop.stdout.resume();
    return { url, process: shop, stop };
  }
  throw new Error(`the shop did not open: ${log}`);
}
