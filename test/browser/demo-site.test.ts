import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { extname, join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { gzipSync } from 'node:zlib';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { build } from 'vite';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import {
  type RunSettings,
  type SimulatedRun,
  simulateRun,
} from '../../sample-app/demo/simulated-run.js';
import { STORIES } from '../../sample-app/page/demo/stories.js';
import { launchBrowser } from '../../scripts/browser.mjs';
import {
  act,
  logOf,
  over,
  verdictsOf,
  violationsOf,
  openQuietly,
  visit,
  type VisitOptions,
} from '../support/live-page.js';

const CONFIG = 'sample-app/page/demo/vite.config.ts';
const PATH = '/projects/sale';
const TYPES: Record<string, string> = {
  '.css': 'text/css',
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.png': 'image/png',
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

/** Serves the files of a directory below a path, as any file server does. */
async function serve(directory: string, path: string): Promise<Server> {
  const server = createServer(({ url }, response) => {
    const { pathname } = new URL(url!, 'http://localhost');
    const name = pathname.startsWith(`${path}/`) ? pathname.slice(path.length + 1) : '';
    const file = name.endsWith('/') || name === '' ? `${name}index.html` : name;
    try {
      const content = readFileSync(join(directory, extname(file) ? file : `${file}.html`));
      const type = TYPES[extname(file)] ?? 'text/html';
      response.setHeader('content-type', type);
      if (!type.startsWith('text/')) return void response.end(content);
      response.setHeader('content-encoding', 'gzip');
      response.end(gzipSync(content));
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
    server = await serve(directory, PATH);
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

  it('shows the leaders in the story of the killed leader, and no sale', async () => {
    const page = await open(LINK);
    await over(page);
    await page.getByRole('button', { name: 'The killed leader' }).click();
    await page.getByRole('heading', { name: 'The killed leader', level: 1 }).waitFor();
    await expect
      .poll(() => page.locator('.caption').textContent())
      .toBe('There was never more than one leader.');
    expect(await verdictsOf(page)).toEqual(['Instance 2 leads.']);
    expect(await page.locator('.tally').count()).toBe(0);
    await page.locator('.timeline-table summary').click();
    const cells = (column: number) =>
      page.locator(`.timeline-table td:nth-child(${column})`).allTextContents();
    await expect.poll(() => cells(1)).toEqual(['Instance 1', 'Instance 2']);
    expect(await cells(5)).toEqual(['died', 'holds']);
    await page.getByRole('button', { name: 'Run both' }).click();
    await page.getByRole('heading', { name: '20 phones. 60 buyers. 3 servers.' }).waitFor();
    await over(page);
    expect((await verdictsOf(page))[1]).toBe('Sold exactly 20, none twice.');
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
      await page.setViewportSize({ width: 360, height: 800 });
      // The page draws its timelines again.
      await expect.poll(() => page.evaluate('document.documentElement.scrollWidth')).toBe(360);
      expect(await violationsOf(page)).toEqual([]);
    }
  });
});

describe('the documentation site', () => {
  let directory: string;
  let url: string;
  let server: Server;
  let browser: Browser;

  beforeAll(async () => {
    directory = mkdtempSync(join(tmpdir(), 'docs-site-'));
    const vitepress = 'node_modules/vitepress/bin/vitepress.js';
    execFileSync(process.execPath, [vitepress, 'build', 'docs', '--outDir', directory], {
      stdio: 'pipe',
    });
    const outDir = join(directory, 'demo');
    await build({ configFile: CONFIG, logLevel: 'error', build: { outDir } });
    server = await serve(directory, '');
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    browser = await launchBrowser();
  });

  afterAll(async () => {
    await browser?.close();
    server?.close();
    rmSync(directory, { recursive: true });
  });

  const open = (path: string, options?: BrowserContextOptions) =>
    openQuietly(browser, `${url}${path}`, options);
  const result = (page: Page) => page.locator('.race-timeline .result');
  /** Loads the timeline of a page. */
  const showTimeline = async (page: Page) => {
    await page.locator('.race-timeline').scrollIntoViewIfNeeded();
    await result(page).filter({ hasText: /\d/ }).waitFor();
  };
  const isInView = (page: Page) =>
    page.evaluate<boolean>(
      `document.querySelector('.race-timeline').getBoundingClientRect().top < innerHeight`,
    );

  it.each([
    ['/introduction', 'paused-holder'],
    ['/guides/locks', 'cut-holder'],
    ['/guides/transactions', 'paused-holder'],
  ])(
    'simulates on %s the story %s, by keyboard, with a seed of the reader',
    async (path, story) => {
      const page = await open(path);
      const requests: string[] = [];
      page.on('request', (request) => requests.push(new URL(request.url()).pathname));
      await page.waitForLoadState('networkidle');
      expect(await isInView(page)).toBe(false);
      expect(requests.filter((name) => name.startsWith('/demo/'))).toEqual([]);
      await showTimeline(page);
      expect(await result(page).textContent()).toMatch(
        /^Sold exactly \d+, none twice\. · 1 late write refused by the fence$/,
      );
      const seed = page.locator('.race-timeline').getByLabel('Seed');
      await seed.focus();
      await seed.fill('12');
      await page.keyboard.press('Tab');
      await page.keyboard.press('Enter');
      const { events } = await simulateRun({ ...STORIES[story]!, seed: 12 });
      const start = events.find(({ type }) => type === 'sale-started')!.at;
      const grants = events.flatMap(({ type, at }) => (type === 'granted' ? [at - start] : []));
      await page.locator('.race-timeline summary').click();
      const cells = page.locator('.timeline-table td:nth-child(3)').filter({ hasText: /./ });
      const times = grants.map((at) => `${(at / 1000).toFixed(3)} s`);
      await expect.poll(() => cells.allTextContents()).toEqual(times);
      await page.locator('.race-timeline').getByRole('link', { name: 'Open in the demo' }).click();
      await page.locator('.link-state.live').waitFor();
      await page.locator('.demo-bar select').selectOption('4');
      await over(page);
      expect(await page.locator('.database').textContent()).toContain('1 late write refused');
    },
  );

  it('shows the caption alone where the timeline cannot be loaded', async () => {
    const page = await browser.newPage();
    onTestFinished(() => page.close());
    await page.route(/demo.embed/, (route) => route.abort());
    await page.goto(`${url}/guides/locks`);
    await page.locator('.race-timeline').scrollIntoViewIfNeeded();
    await expect.poll(() => page.locator('.race-timeline > div').count()).toBe(0);
    await page.locator('.race-timeline').getByText('The demo').waitFor();
  });

  it('uses the colours that the reader has chosen on the site', async () => {
    const page = await open('/guides/locks', { colorScheme: 'light' });
    await showTimeline(page);
    const ground = () =>
      page.evaluate<string>(`getComputedStyle(document.querySelector('.race-timeline > div'))
        .getPropertyValue('--timeline-ground')`);
    expect(await ground()).toMatch(/^#fff/);
    await page.locator('.VPSwitchAppearance:visible').click();
    expect(await ground()).toBe('#16181d');
  });

  const looks = (['light', 'dark'] as const).flatMap((colorScheme) =>
    [360, 1280].map((width) => [colorScheme, width] as const),
  );
  it.each(looks)(
    'is accessible in the %s scheme on a width of %d pixels',
    async (scheme, width) => {
      const viewport = { width, height: 800 };
      for (const path of ['/', '/zh/', '/introduction', '/guides/locks', '/reference/recipes']) {
        const page = await open(path, { colorScheme: scheme, viewport });
        if ((await page.locator('.race-timeline').count()) > 0) await showTimeline(page);
        expect(await violationsOf(page), path).toEqual([]);
        expect(await page.evaluate('document.documentElement.scrollWidth'), path).toBe(width);
      }
    },
  );

  it('is read by keyboard: each page has a link to its text', async () => {
    for (const path of ['/', '/guides/locks', '/reference/recipes']) {
      const page = await open(path);
      await page.keyboard.press('Tab');
      await page.keyboard.press('Enter');
      await page.keyboard.press('Tab');
      const isInText = `document.querySelector('#VPContent').contains(document.activeElement)`;
      expect(await page.evaluate(isInText), path).toBe(true);
    }
  });

  it('is small: the first view of the front page has less than 300 kB', async () => {
    const page = await open('/');
    const bytes = await page.evaluate<number>(`['resource', 'navigation']
      .flatMap((type) => performance.getEntriesByType(type))
      .reduce((sum, { encodedBodySize }) => sum + encodedBodySize, 0)`);
    expect(bytes).toBeLessThan(300_000);
  });
});
