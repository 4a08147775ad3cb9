import { request } from 'node:http';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { CHROMIUM, launchBrowser, openShop } from '../../scripts/browser.mjs';

if (!CHROMIUM && !process.env.CI) {
  console.log(
    'Left out: the tests of the live page (no Chromium was found; the variable CHROMIUM can name its program).',
  );
}

/** Time limit of a sale in milliseconds, on a busy machine. */
const PATIENCE = 90_000;
const A_PHONE = { width: 390, height: 844 };
const A_SMALL_PHONE = { width: 320, height: 568 };

describe.runIf(CHROMIUM || process.env.CI)('the live page', { timeout: 2 * PATIENCE }, () => {
  let shop: Awaited<ReturnType<typeof openShop>>;
  let browser: Browser;
  let sales = 0;

  beforeAll(async () => {
    shop = await openShop();
    browser = await launchBrowser();
  }, 3 * PATIENCE);

  afterAll(async () => {
    await browser?.close();
    await shop?.stop();
  });

  /** Opens the page in a fresh context. Its console must stay empty. */
  async function visit(options: BrowserContextOptions = {}): Promise<Page> {
    const context = await browser.newContext({ reducedMotion: 'reduce', ...options });
    const page = await context.newPage();
    const complaints: string[] = [];
    page.on('console', (said) => said.type() === 'error' && complaints.push(said.text()));
    page.on('pageerror', (error) => complaints.push(String(error)));
    page.on('requestfailed', (failed) =>
      complaints.push(`${failed.url()} ${failed.failure()?.errorText}`),
    );
    onTestFinished(async () => {
      expect(complaints).toEqual([]);
      await context.close();
    });
    await page.goto(shop.url);
    await page.locator('#instances .kill:visible').nth(2).waitFor();
    return page;
  }

  interface Order {
    mode: string;
    buyers: number;
    items: number;
    delay: readonly [number, number];
  }

  async function start(page: Page, { mode, buyers, items, delay }: Order): Promise<void> {
    const number = (name: string) => page.getByRole('spinbutton', { name });
    await page.locator('.modes label', { has: page.locator(`[value=${mode}]`) }).click();
    await number('Buyers').fill(String(buyers));
    await number('Items').fill(String(items));
    await number('Delay from').fill(String(delay[0]));
    await number('Delay to').fill(String(delay[1]));
    await page.getByRole('button', { name: 'Start the sale' }).click();
    sales += 1;
    await page.locator(`#verdict[data-sale="${sales}"]`).waitFor();
  }

  const over = (page: Page) =>
    page.locator(`#verdict[data-sale="${sales}"][data-over=true]`).waitFor({ timeout: PATIENCE });
  const figure = async (page: Page, id: string) =>
    Number((await page.locator(`#${id}`).textContent())!.replace(/,/g, ''));
  const verdict = (page: Page) => page.locator('#verdict').textContent();
  const logOf = (page: Page) => page.locator('#log').textContent();
  // As text, because it runs in the page, which has none of this project's names.
  const style = (page: Page, selector: string, property: string) =>
    page.evaluate<string>(
      `getComputedStyle(document.querySelector('${selector}')).getPropertyValue('${property}')`,
    );

  it('shows in red how many items the shop oversells without a lock', async () => {
    const page = await visit();
    await start(page, { mode: 'none', buyers: 90, items: 30, delay: [30, 60] });
    await over(page);
    expect(await verdict(page)).toMatch(/^Oversold: \d+ orders for 30 items\.$/);
    expect(await figure(page, 'oversold')).toBeGreaterThan(0);
    expect(await figure(page, 'oversold')).toBe((await figure(page, 'orders')) - 30);
    const red = 'rgb(179, 38, 30)';
    expect(await style(page, '#verdict', 'color')).toBe(red);
    expect(await style(page, '#oversold', 'color')).toBe(red);
  });

  it.each(['lock', 'lingering', 'strict'])(
    'shows a sale of exactly the stock with %s',
    async (mode) => {
      const page = await visit();
      await start(page, { mode, buyers: 90, items: 30, delay: [5, 20] });
      await over(page);
      expect(await verdict(page)).toBe('Sold exactly 30, none twice.');
      expect(await figure(page, 'oversold')).toBe(0);
      expect(await figure(page, 'stock')).toBe(0);
      expect(await figure(page, 'answered')).toBe(90);
      const shares = await page.locator('.sold').allTextContents();
      const sold = shares.map((share) => Number.parseInt(share, 10));
      expect(sold.reduce((sum, one) => sum + one)).toBe(30);
      expect(await page.locator('#token').textContent()).toMatch(/^\d{16,}$/);
    },
  );

  /** Each hold lasts for a second: long enough to find the holder and to kill it. */
  const slow = { mode: 'lock', buyers: 12, items: 12, delay: [1000, 1000] } as const;

  async function holder(page: Page): Promise<string> {
    const holding = page.locator('#queue .holding:not([data-instance=""])');
    await expect.poll(() => figure(page, 'orders'), { timeout: PATIENCE }).toBeGreaterThan(0);
    return (await holding.getAttribute('data-instance'))!;
  }

  it('shows that the lock moves on when its holder is killed, and that the instance can be revived', async () => {
    const page = await visit();
    await start(page, slow);
    const killed = await holder(page);
    await page.getByRole('button', { name: `Kill instance ${killed}` }).click();
    await expect.poll(() => logOf(page)).toContain(`Instance ${killed} was killed.`);
    await expect
      .poll(() => logOf(page), { timeout: PATIENCE })
      .toMatch(new RegExp(`The lock moved from instance ${killed} to [123]`));
    await over(page);
    expect(await figure(page, 'oversold')).toBe(0);
    expect(await verdict(page)).toMatch(/^Sold \d+, \d+ left, none twice\.$/);

    await page.getByRole('button', { name: `Revive instance ${killed}` }).click();
    await expect
      .poll(() => logOf(page), { timeout: PATIENCE })
      .toContain(`Instance ${killed} is up.`);
    await expect.poll(() => page.locator('.state.up').count()).toBe(3);
    await expect.poll(() => page.locator('#leader').textContent()).toMatch(/^Instance \d$/);
  });

  it('shows that the lock moves on when the session of its holder expires', async () => {
    const page = await visit();
    await start(page, slow);
    const expired = await holder(page);
    const button = `Expire the session of instance ${expired}`;
    await page.getByRole('button', { name: button }).click();
    await expect
      .poll(() => logOf(page), { timeout: PATIENCE })
      .toMatch(new RegExp(`The lock moved from instance ${expired} to [123]`));
    await expect.poll(() => logOf(page)).toContain(`Instance ${expired} has a new session.`);
    await over(page);
    expect(await figure(page, 'oversold')).toBe(0);
  });

  it.each([A_PHONE, A_SMALL_PHONE])(
    'fits the width of a phone, $width pixels',
    async (viewport) => {
      const page = await visit({ viewport, hasTouch: true, isMobile: true });
      const width = await page.evaluate('document.documentElement.scrollWidth');
      expect(width).toBe(viewport.width);
    },
  );

  it.each(['light', 'dark'] as const)(
    'has sufficient contrast in the %s colour scheme',
    async (colorScheme) => {
      const page = await visit({ colorScheme });
      const ground = luminance(await style(page, 'body', 'background-color'));
      expect(ground > 0.5).toBe(colorScheme === 'light');
      const card = luminance(await style(page, '#order', 'background-color'));
      for (const name of ['text', 'quiet', 'orders', 'stock', 'good', 'bad', 'first', 'second']) {
        const colour = luminance(hex(await style(page, 'html', `--${name}`)));
        expect(contrast(colour, card), name).toBeGreaterThan(4.5);
      }
    },
  );

  it('disables its buttons on pages from other machines', async () => {
    const post = (path: string, headers: Record<string, string>) =>
      new Promise<number>((resolve, reject) => {
        const sent = request(`${shop.url}${path}`, { method: 'POST', headers }, (answer) => {
          answer.resume();
          resolve(answer.statusCode!);
        });
        sent.on('error', reject).end();
      });
    const { host } = new URL(shop.url);
    for (const path of ['/live/sale', '/live/instances/1/kill', '/goods-stock/phone/purchase']) {
      expect(await post(path, { origin: 'http://elsewhere.example' }), path).toBe(403);
      expect(await post(path, { host: 'elsewhere.example' }), path).toBe(403);
      expect(await post(path, { origin: 'null' }), path).toBe(403);
    }
    expect(await post('/live/sale', { origin: `http://${host}` })).toBe(400);
    const page = await fetch(shop.url);
    expect(page.headers.get('content-security-policy')).toContain("frame-ancestors 'none'");
  });
});

/** As WCAG defines them: the relative luminance of `rgb(…)`, and the contrast of two colours. */
function luminance(colour: string): number {
  const [red, green, blue] = colour.match(/\d+/g)!.map((part) => {
    const value = Number(part) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red! + 0.7152 * green! + 0.0722 * blue!;
}

function contrast(one: number, other: number): number {
  return (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
}

function hex(colour: string): string {
  const parts = colour
    .trim()
    .slice(1)
    .match(/../g)!
    .map((part) => Number.parseInt(part, 16));
  return `rgb(${parts.join(', ')})`;
}
