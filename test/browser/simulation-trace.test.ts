import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { launchBrowser } from '../../scripts/browser.mjs';
import { tracePage } from '../../scripts/simulation/trace-page.js';
import type { Acquire, Report } from '../../scripts/simulation/types.js';

const acquires = Array.from({ length: 200 }, (_, index): Acquire => {
  const granted = index * 40;
  return {
    process: `p${index % 2}`,
    key: index % 4 < 2 ? 'stock' : 'order',
    mode: 'exclusive',
    asked: Math.max(0, granted - 100),
    granted: index % 10 === 9 ? undefined : granted,
    token: index % 10 === 9 ? undefined : 4_294_967_296n + BigInt(index),
    ended: granted + 30,
    outcome: index % 10 === 9 ? 'timed out' : index % 10 === 8 ? 'lost' : 'released',
  };
});

const REPORT: Report = {
  seed: 42,
  digest: '0123456789abcdef',
  duration: 8_000,
  events: 1_000,
  grants: 180,
  faults: [
    { index: 0, kind: 'pause', target: 'p0', from: 1_000, until: 2_000 },
    { index: 1, kind: 'crash server', target: 'server 1', from: 3_000, until: 3_000 },
  ],
  violations: [{ property: 'one holder', message: 'p0 and p1 hold </script> stock', at: 4_000 }],
  acquires,
  processes: ['p0', 'p1'],
};

describe('the trace of a simulation', () => {
  let directory: string;
  let file: string;
  let browser: Browser;

  beforeAll(async () => {
    directory = mkdtempSync(join(tmpdir(), 'simulation-trace-'));
    file = join(directory, 'trace.html');
    writeFileSync(file, await tracePage(REPORT));
    browser = await launchBrowser();
  });

  afterAll(async () => {
    await browser?.close();
    rmSync(directory, { recursive: true });
  });

  /** Opens the page, which must neither report errors nor request other resources. */
  async function open(): Promise<Page> {
    const page = await browser.newPage({ viewport: { width: 1200, height: 800 } });
    const problems: string[] = [];
    page.on('console', (message) => problems.push(message.text()));
    page.on('pageerror', (error) => problems.push(String(error)));
    page.on('request', (request) => {
      if (!/^(file|data):/.test(request.url())) problems.push(request.url());
    });
    onTestFinished(async () => {
      expect(problems).toEqual([]);
      await page.close();
    });
    await page.goto(pathToFileURL(file).href);
    return page;
  }

  const picture = (page: Page) => page.locator('.timeline-box canvas').screenshot();

  it('shows the figures, the violation and the locks', async () => {
    const page = await open();
    expect(await page.title()).toBe('Simulation, seed 42');
    expect(await page.locator('dl').textContent()).toContain('0123456789abcdef');
    expect(await page.locator('.timeline-violation').textContent()).toBe(
      'one holder p0 and p1 hold </script> stock',
    );
    expect(await page.locator('.timeline-keys option').allTextContents()).toEqual([
      'all',
      'order',
      'stock',
    ]);
  });

  it('changes with the zoom, the keys, the violation and the lock', async () => {
    const page = await open();
    const whole = await picture(page);
    const changes = [
      () => page.getByRole('button', { name: 'Zoom in' }).click(),
      async () => {
        await page.locator('.timeline-box').focus();
        await page.locator('canvas').hover();
        await page.mouse.wheel(0, -300);
      },
      () => page.locator('.timeline-box').press('ArrowRight'),
      () => page.locator('.timeline-violation').click(),
      () => page.locator('.timeline-keys select').selectOption('stock'),
    ];
    let before = whole;
    for (const change of changes) {
      await change();
      await expect.poll(async () => (await picture(page)).equals(before)).toBe(false);
      before = await picture(page);
    }
    await page.locator('.timeline-keys select').selectOption('');
    await page.getByRole('button', { name: 'Whole run' }).click();
    await page.mouse.move(0, 0);
    await expect.poll(async () => (await picture(page)).equals(whole)).toBe(true);
  });

  it('shows the details of the lease or fault under the pointer', async () => {
    const page = await open();
    await page.locator('.timeline-violation').click();
    const { x, y, width, height } = (await page.locator('canvas').boundingBox())!;
    const details = new Set<string>();
    for (let down = 2; down < height; down += 4) {
      await page.mouse.move(x + width * 0.7, y + down);
      details.add((await page.locator('.timeline-details').textContent())!);
    }
    const text = [...details].join('\n\n');
    expect(text).toMatch(
      /^p\d · stock \(exclusive\) · requested at 3\.\d+ s · granted at 4\.\d+ s · released 4\.\d+ s · fencing token 42949\d+$/m,
    );
  });
});
