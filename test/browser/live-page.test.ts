import { readFileSync } from 'node:fs';
import { request } from 'node:http';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { launchBrowser, openShop } from '../../scripts/browser.mjs';
import {
  act,
  holder,
  linkState,
  logOf,
  type Order,
  over,
  CALL_TIMEOUT,
  queryOf,
  start,
  verdictsOf,
  violationsOf,
  visit as visitAt,
  type VisitOptions,
} from '../support/live-page.js';

const QUICK = { mode: 'both', buyers: 60, items: 20, delay: '5-20' } as const;
/** Each hold lasts for a second: long enough to find the holder, and to cause a fault. */
const SLOW = { mode: 'lock', buyers: 9, items: 9, delay: '1000-1000' } as const;

const LOOKS = (['light', 'dark'] as const).flatMap((colorScheme) =>
  ['en', 'zh'].map((lang) => ({ colorScheme, lang })),
);

describe('the live page', { timeout: 3 * CALL_TIMEOUT }, () => {
  let shop: Awaited<ReturnType<typeof openShop>>;
  let browser: Browser;

  beforeAll(async () => {
    shop = await openShop();
    browser = await launchBrowser();
  }, 3 * CALL_TIMEOUT);

  afterAll(async () => {
    await browser?.close();
    await shop?.stop();
  });

  const visit = (options?: VisitOptions) => visitAt(browser, shop.url, options);
  /** Opens the page, and runs a sale until its end. */
  const ranSale = async (order: Order) => {
    const page = await visit({ query: queryOf(order) });
    await start(page);
    await over(page);
    return page;
  };
  const stopServer = () => {
    shop.process.kill('SIGSTOP');
    onTestFinished(() => void shop.process.kill('SIGCONT'));
  };
  const untilLogged = async (page: Page, text: RegExp) => {
    await expect
      .poll(() => logOf(page), { timeout: CALL_TIMEOUT })
      .toContainEqual(expect.stringMatching(text));
  };

  it('plays the sale without and with the lock, and shows which of them oversells', async () => {
    const page = await ranSale(QUICK);
    const [unlocked, locked] = await verdictsOf(page);
    expect(unlocked).toMatch(/^Oversold: \d+ orders for 20 phones\.$/);
    expect(locked).toBe('Sold exactly 20, none twice.');
    const tallies = await page.locator('.tally').allTextContents();
    expect(tallies[1]).toBe('Sold20Sold out40Refused0Unanswered0');
  });

  it.each(['lingering', 'strict'])('sells exactly the stock in mode %s', async (mode) => {
    const page = await ranSale({ ...QUICK, mode });
    expect(await verdictsOf(page)).toEqual(['Sold exactly 20, none twice.']);
  });

  it('shows all grants of a sale with their tokens', async () => {
    const page = await ranSale({ ...QUICK, mode: 'lock', buyers: 12, items: 6 });
    const timeline = page.locator('.timeline-box');
    await timeline.focus();
    await timeline.press('Home');
    await expect
      .poll(() => page.locator('.timeline-details').textContent())
      .toMatch(/^Instance \d · goods-.*granted at .*fencing token #1, \d{10,}$/);
    await page.locator('.timeline-table summary').click();
    await expect.poll(() => page.locator('.timeline-table tbody tr').count()).toBe(12);
    const tokens = await page.locator('.timeline-table td:last-child').allTextContents();
    expect(tokens[11]).toMatch(/^#12 \d{10,}$/);
    const whole = page.getByRole('button', { name: 'Whole run' });
    await page.getByRole('button', { name: 'Zoom in' }).click();
    expect(await whole.isEnabled()).toBe(true);
    await start(page);
    expect(await whole.isEnabled(), 'zoom of the next sale').toBe(false);
    await over(page);
  });

  it('takes a double click for one click', async () => {
    const page = await visit({ query: queryOf(QUICK) });
    const posted: string[] = [];
    page.on('request', (sent) => {
      if (sent.method() === 'POST') posted.push(new URL(sent.url()).pathname);
    });
    await page.locator('.primary[aria-disabled=false]').dblclick();
    await expect.poll(() => page.locator('.verdict[data-sale]').count()).toBe(2);
    expect(await page.locator('.refusal').textContent()).toBe('');
    await over(page);
    await page.getByRole('button', { name: 'Kill: instance 3' }).dblclick({ delay: 400 });
    await page.locator('[data-instance="3"] .state', { hasText: 'dead' }).waitFor();
    expect(posted).toEqual(['/live/both', '/live/instances/3/kill']);
    await act(page, 'Revive', '3');
    await page
      .locator('[data-instance="3"] .state', { hasText: 'connected' })
      .waitFor({ timeout: CALL_TIMEOUT });
  });

  it('counts down until the lock of a killed holder moves on, and revives the instance', async () => {
    const page = await visit({ query: queryOf(SLOW) });
    await start(page);
    const killed = await holder(page);
    await act(page, 'Kill', killed);
    const state = page.locator(`[data-instance="${killed}"] .state`);
    await expect.poll(() => state.textContent()).toMatch(/^dead, lock is free in [0-6]\.\d s$/);
    await untilLogged(page, /died\./);
    await untilLogged(page, new RegExp(`The lock moved on from instance ${killed} to`));
    await over(page);
    // The buyers of the killed instance got no answer.
    expect(await verdictsOf(page)).toEqual([
      expect.stringMatching(/^None sold twice, but \d buyers? got no answer\.$/),
    ]);
    await act(page, 'Revive', killed);
    await expect.poll(() => state.textContent(), { timeout: CALL_TIMEOUT }).toBe('connected');
  });

  it('shows the lost lease and the refused write of a holder that was paused past its session', async () => {
    const page = await visit({ query: queryOf(SLOW) });
    await page.getByRole('button', { name: 'The holder that sleeps' }).click();
    const paused = page.locator('.instance .state', { hasText: /^paused, lock is free in/ });
    await paused.waitFor({ timeout: CALL_TIMEOUT });
    await untilLogged(page, /The fence refused a late write of instance \d, token \d/);
    await untilLogged(page, /Instance \d lost its lease with token \d/);
    await over(page);
    expect((await verdictsOf(page))[0]).toMatch(/^Sold exactly \d+, none twice\.$/);
    const caption = page.getByText('The lock moved on, and the late write did no harm.');
    await caption.waitFor({ timeout: CALL_TIMEOUT });
  });

  it('shows a cut network, and that the holder was cut off from ZooKeeper', async () => {
    const page = await visit({ query: queryOf(SLOW) });
    await start(page);
    const cut = await holder(page);
    await act(page, 'Cut network', cut);
    await expect
      .poll(() => page.locator(`[data-instance="${cut}"] .state`).textContent())
      .toMatch(/^network cut/);
    await act(page, 'Reconnect', cut);
    await untilLogged(page, new RegExp(`Instance ${cut} has its network back\\.`));
    await over(page);
  });

  it('pauses ZooKeeper, which every instance notices, and resumes it', async () => {
    const page = await visit({ query: queryOf(QUICK) });
    const lostSessions = async () =>
      (await logOf(page)).filter((line) => line.includes('lost its session')).length;
    const before = await lostSessions();
    await page.getByRole('button', { name: 'Pause ZooKeeper' }).click();
    await page.locator('.zookeeper .state', { hasText: /^no answer for/ }).waitFor();
    await untilLogged(page, /^\d+:[\d.]+ZooKeeper was paused\.$/);
    await expect.poll(lostSessions).toBe(before + 3);
    await page.getByRole('button', { name: 'Resume ZooKeeper' }).click();
    await untilLogged(page, /ZooKeeper answers again\./);
    await expect
      .poll(() => page.locator('[data-instance="2"] .state').textContent(), {
        timeout: CALL_TIMEOUT,
      })
      .toBe('connected');
    await start(page);
    await over(page);
    expect((await verdictsOf(page))[1]).toBe('Sold exactly 20, none twice.');
  });

  it('says within a second that it has lost its server, and what it shows is old', async () => {
    const page = await visit();
    stopServer();
    await expect
      .poll(() => linkState(page).textContent())
      .toMatch(/^Disconnected from the server for \d+\.\d s\./);
    const states = await page.locator('.instance .state').allTextContents();
    expect(states).toEqual(Array(3).fill(expect.stringMatching(/^not confirmed for/)));
    expect(await page.locator('.primary').getAttribute('aria-disabled')).toBe('true');
    shop.process.kill('SIGCONT');
    await expect.poll(() => linkState(page).getAttribute('class')).toContain('live');
  });

  it('is without violations of axe-core in all states, colour schemes and languages', async () => {
    const pages = await Promise.all(
      LOOKS.map(({ colorScheme, lang }) => visit({ colorScheme, query: queryOf(SLOW, lang) })),
    );
    const english = pages[0]!;
    const check = async (state: string) => {
      for (const page of pages) expect(await violationsOf(page), state).toEqual([]);
    };
    await check('idle');
    await Promise.all(pages.map((page) => page.locator('.settings summary').click()));
    await check('settings');
    await english.goto(`${shop.url}/?${queryOf({ ...SLOW, mode: 'both' })}`);
    await linkState(english).and(english.locator('.live')).waitFor();
    await start(english);
    await check('running');
    const killed = await holder(english);
    await act(english, 'Kill', killed);
    await english.getByText('died.').first().waitFor();
    await check('killed');
    await act(english, 'Revive', killed);
    await over(english);
    await check('over');
    await act(english, 'Pause', '1');
    await english.locator('[data-instance="1"] .state', { hasText: 'paused' }).waitFor();
    await check('paused');
    // The instance resumes by itself, if the checks take long.
    await english
      .locator('[data-instance="1"] .state', { hasText: 'connected' })
      .waitFor({ timeout: CALL_TIMEOUT });
    stopServer();
    await expect.poll(() => linkState(english).textContent()).toMatch(/^Disconnected/);
    await check('no connection');
    shop.process.kill('SIGCONT');
    await expect.poll(() => linkState(english).getAttribute('class')).toContain('live');
  });

  it.each([360, 1280, 3840])('fits a width of %d pixels, with buttons of 44', async (width) => {
    const page = await visit({ viewport: { width, height: 800 }, query: queryOf(QUICK) });
    await page.locator('.settings summary').click();
    const size = () => page.evaluate<number>('document.documentElement.scrollWidth');
    expect(await size()).toBe(width);
    await start(page);
    await over(page);
    expect(await size()).toBe(width);
    for (const button of await page.locator('button:visible, summary:visible').all()) {
      const box = (await button.boundingBox())!;
      const text = await button.textContent();
      expect(Math.round(box.height), text!).toBeGreaterThanOrEqual(44);
      expect(Math.round(box.width), text!).toBeGreaterThanOrEqual(44);
    }
  });

  it('does not jump when a sale starts and ends', async () => {
    const page = await visit({ query: queryOf(QUICK) });
    const tops = () =>
      page.evaluate<number[]>(`['.message', '.sales', '.timeline-box', '.log'].map((selector) =>
        document.querySelector(selector).getBoundingClientRect().top)`);
    const before = await tops();
    await start(page);
    const running = await tops();
    expect(running).toEqual(before);
    await over(page);
    expect(await tops()).toEqual(running);
  });

  it('works by keyboard alone', async () => {
    const page = await visit({ query: queryOf({ ...QUICK, mode: 'lock' }) });
    const focused = () => page.evaluate<string>('document.activeElement.textContent');
    const tabTo = async (text: string | RegExp) => {
      for (let i = 0; i < 60; i++) {
        await page.keyboard.press('Tab');
        if ((await focused()).match(text)) return;
      }
      throw new Error(`Tab does not reach ${text}`);
    };
    await page.locator('.primary[aria-disabled=false]').waitFor();
    await tabTo(/^Run$/);
    await page.keyboard.press('Enter');
    await expect.poll(() => page.locator('.verdict').count()).toBe(1);
    await over(page);
    expect(await focused()).toMatch(/^Run/);
    await tabTo(/^Pause$/);
    await page.keyboard.press('Space');
    await page.getByRole('button', { name: 'Resume: instance 1' }).waitFor();
    expect(await focused()).toBe('Resume');
    await page.keyboard.press('Space');
    await page.getByRole('button', { name: 'Pause: instance 1' }).waitFor();
  });

  it('saves a run as a picture and as a link that restores its settings and the language', async () => {
    const page = await ranSale(QUICK);
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'Save as picture' }).click(),
    ]);
    expect(download.suggestedFilename()).toBe('flash-sale.png');
    const png = readFileSync(await download.path());
    expect(png.subarray(1, 4).toString()).toBe('PNG');
    expect(png.readUInt32BE(16)).toBe(2400);
    expect(png.length).toBeGreaterThan(50_000);
    await page.getByRole('button', { name: '中文' }).click();
    await page.getByRole('button', { name: '复制链接' }).click();
    await expect.poll(() => page.url()).toContain('buyers=60&items=20&delay=5-20&lang=zh');
    const other = await visit({ query: new URL(page.url()).search.slice(1) });
    expect(await other.locator('h1').textContent()).toBe('20 部手机，60 人抢，3 台服务器。');
    expect(await other.locator('html').getAttribute('lang')).toBe('zh-CN');
  });

  it('shows the link when it cannot be copied', async () => {
    const page = await visit();
    await page.evaluate(
      `navigator.clipboard.writeText = () => Promise.reject(new Error('denied'))`,
    );
    await page.getByRole('button', { name: 'Copy link' }).click();
    const link = page.getByRole('textbox', { name: 'The link could not be copied.' });
    expect(await link.inputValue()).toBe(page.url());
    expect(await page.getByText('Link copied').count()).toBe(0);
  });

  it('opens with one sentence and one button in the language of the browser, and remembers another one', async () => {
    const page = await visit({ locale: 'zh-CN', query: '' });
    await page.getByRole('button', { name: '两种都跑' }).waitFor();
    await page.getByRole('button', { name: 'English' }).click();
    await page.goto(shop.url);
    await page.getByRole('button', { name: 'Run both' }).waitFor();
    // Of the last sale, which the page shows.
    expect(await page.locator('h1').textContent()).toMatch(
      /^\d+ phones\. \d+ buyers\. 3 servers\.$/,
    );
    expect(await page.locator('.settings input').first().isVisible()).toBe(false);
  });

  it('refuses requests of other pages and of other host names', async () => {
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
