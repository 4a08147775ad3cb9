import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { extname, join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import type { Browser, Page } from 'playwright-core';
import { build } from 'vite';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import {
  type RunSettings,
  type SimulatedRun,
  simulateRun,
} from '../../sample-app/demo/simulated-run.js';
import { launchBrowser } from '../../scripts/browser.mjs';
import {
  act,
  logOf,
  over,
  verdictsOf,
  violationsOf,
  visit,
  type VisitOptions,
} from '../support/live-page.js';

const CONFIG = 'sample-app/page/demo/vite.config.ts';
const PATH = '/projects/sale';
const TYPES: Record<string, string> = {
  '.css': 'text/css',
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.svg': 'image/svg+xml',
  '.woff2': 'font/woff2',
};

/** A run that ends with its sales. */
const LINK = 'lang=en&buyers=60&items=20&seed=7&faults=off';

const SETTINGS: RunSettings = {
  seed: 7,
  modes: ['none', 'lock'],
  buyers: 60,
  items: 20,
  delay: [20, 60],
  faults: true,
  actions: [{ at: 900, instance: 1, action: 'pause' }],
};

/** Serves the files of a directory below `PATH`, as any file server does. */
async function serve(directory: string): Promise<Server> {
  const server = createServer(({ url }, response) => {
    const { pathname } = new URL(url!, 'http://localhost');
    const name = pathname.startsWith(`${PATH}/`) ? pathname.slice(PATH.length + 1) : '';
    try {
      const content = readFileSync(join(directory, name || 'index.html'));
      response.setHeader('content-type', TYPES[extname(name) || '.html']!);
      response.end(content);
    } catch {
      response.writeHead(404).end();
    }
  });
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  return server;
}

describe('the page without a server', () => {
  let directory: string;
  /** Of the page, without a slash at the end. */
  let url: string;
  let server: Server;
  let browser: Browser;

  beforeAll(async () => {
    directory = mkdtempSync(join(tmpdir(), 'demo-site-'));
    await build({ configFile: CONFIG, logLevel: 'error', build: { outDir: directory } });
    server = await serve(directory);
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}${PATH}`;
    browser = await launchBrowser();
  });

  afterAll(async () => {
    await browser?.close();
    server?.close();
    rmSync(directory, { recursive: true });
  });

  /** Opens the page and plays at four times the speed. Nothing may be requested from elsewhere. */
  async function open(query: string, options: VisitOptions = {}): Promise<Page> {
    const page = await visit(browser, url, { query, ...options });
    await page.locator('.state.good').first().waitFor();
    const requested = await page.evaluate<string[]>(
      "performance.getEntriesByType('resource').map(({ name }) => name)",
    );
    expect(requested.filter((name) => !name.startsWith(url))).toEqual([]);
    await page.locator('.demo-bar select').selectOption('4');
    return page;
  }

  it('plays a recorded run', async () => {
    const page = await open('lang=en&scenario=sleeping-holder');
    await act(page, 'Pause', '1');
    // The next caption replaces the refusal, which would stay for eight seconds.
    await page.locator('.caption.shown').waitFor({ timeout: 6_000 });
    await expect
      .poll(() => page.locator('.caption').textContent())
      .toContain('the late write did no harm');
    await over(page);
    expect(await logOf(page)).toContainEqual(expect.stringMatching(/fence refused/));
    expect(await page.locator('.database').textContent()).toBe(
      'Database: 10 orders, 0 in stock · 1 late write refused by the fence',
    );
    expect(await page.locator('h1').textContent()).toBe('10 phones. 24 buyers. 3 servers.');
    expect(await page.locator('.link-state').textContent()).toContain('Recorded');
    await act(page, 'Pause', '1');
    expect(await page.getByRole('alert').textContent()).toBe('A recorded run cannot be changed.');
    await page.getByRole('button', { name: '中文' }).click();
    await page.getByRole('button', { name: '断网：实例 1' }).click();
    await page.getByText('录像无法改变。').waitFor();
  });

  it('simulates the run of a link, and repeats it', async () => {
    const pages = await Promise.all([open(LINK), open(LINK)]);
    for (const page of pages) {
      await over(page);
      expect(await verdictsOf(page)).toEqual([
        'Oversold: 60 orders for 20 phones.',
        'Sold exactly 20, none twice.',
      ]);
    }
    expect(await logOf(pages[1])).toEqual(await logOf(pages[0]));
  });

  it('stops a recorded run', async () => {
    const page = await open('lang=en&scenario=herd');
    const herd = page.getByRole('button', { name: 'The herd', pressed: true });
    await herd.click();
    await page.getByText('Simulated in this browser').waitFor();
    await page.locator('.primary[aria-disabled=false]').waitFor();
    expect(await page.locator('.refusal').textContent()).toBe('');
  });

  it('shows no sale before the first one, and links to the run that is shown', async () => {
    const page = await open('lang=en&buyers=60&items=20&faults=off');
    expect((await logOf(page)).filter((line) => line.includes('began'))).toEqual([]);
    await page.getByRole('button', { name: 'Run both' }).click();
    await over(page);
    await page.locator('.settings summary').click();
    await page.getByLabel('Buyers').fill('');
    await page.getByLabel('Seed').fill('8');
    expect(await page.locator('h1').textContent()).toBe('20 phones. 60 buyers. 3 servers.');
    expect(await page.locator('.primary').getAttribute('aria-disabled')).toBe('true');
    await page.locator('.scenarios button[aria-disabled=false]').first().waitFor();
    await page.getByLabel('Buyers').fill('70');
    await page.getByRole('button', { name: 'Copy link' }).click();
    expect(new URL(page.url()).search).toBe(
      '?mode=both&buyers=60&items=20&delay=20-60&lang=en&seed=7&faults=off',
    );
  });

  it('cancels a simulation when another one is requested', async () => {
    const page = await open('lang=en&mode=strict&buyers=400&items=20&faults=off');
    await page.locator('.primary').click();
    await page.getByText('Simulating…').waitFor();
    await page.locator('.settings summary').click();
    await page.getByLabel('Buyers').fill('30');
    await page.locator('.primary').click();
    await over(page);
    expect(await page.locator('.tally').textContent()).toBe('Sold20Sold out10Refused0Unanswered0');
  });

  it('says that the simulation failed', async () => {
    const page = await browser.newPage();
    onTestFinished(() => page.close());
    await page.route(/worker/, (route) => route.abort());
    await page.goto(`${url}/?lang=en`);
    await page.getByText('The simulation failed.').waitFor();
  });

  it('simulates the same events as Node', async () => {
    const page = await open('lang=en');
    const worker = JSON.stringify(page.workers()[0]!.url());
    for (const seed of [1, 7, 8]) {
      const settings = { ...SETTINGS, seed };
      const { run } = await page.evaluate<{ run: SimulatedRun }>(`new Promise((resolve) => {
        const { port1, port2 } = new MessageChannel();
        port1.onmessage = ({ data }) => resolve(data);
        new Worker(${worker}, { type: 'module' }).postMessage(${JSON.stringify(settings)}, [port2]);
      })`);
      expect(run, `seed ${seed}`).toEqual(await simulateRun(settings));
    }
  });

  it('repeats the faults of the visitor from a link', async () => {
    const page = await open(LINK);
    await act(page, 'Kill', '2');
    await expect.poll(() => logOf(page)).toContainEqual(expect.stringMatching(/Instance 2 died/));
    await over(page);
    await page.getByRole('button', { name: 'Copy link' }).click();
    const { search } = new URL(page.url());
    expect(search).toMatch(/&seed=7&faults=off&actions=\d+-kill-2$/);
    const again = await open(search.slice(1));
    await over(again);
    // The run continues after the sales.
    const isSame = async () => isDeepStrictEqual(await logOf(again), await logOf(page));
    await expect.poll(isSame).toBe(true);
  });

  it.each(['light', 'dark'] as const)('is accessible in the %s scheme', async (colorScheme) => {
    for (const language of ['en', 'zh']) {
      const page = await open(LINK.replace('lang=en', `lang=${language}`), { colorScheme });
      await over(page);
      expect(await violationsOf(page)).toEqual([]);
    }
  });
});
