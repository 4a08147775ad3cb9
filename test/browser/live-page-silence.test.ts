import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { launchBrowser, openShop } from '../../scripts/browser.mjs';
import {
  act,
  linkState,
  logOf,
  over,
  CALL_TIMEOUT,
  queryOf,
  start,
  verdictsOf,
  visit as visitAt,
} from '../support/live-page.js';
import { RealZooKeeper } from '../support/real-zookeeper.js';

/** A sale of about 15 seconds. */
const LONG = { mode: 'lock', buyers: 30, items: 30, delay: '400-600' } as const;

describe('the live page of a ZooKeeper in another process', { timeout: 3 * CALL_TIMEOUT }, () => {
  let zookeeper: RealZooKeeper;
  let shop: Awaited<ReturnType<typeof openShop>>;
  let browser: Browser;

  beforeAll(async () => {
    zookeeper = await RealZooKeeper.start();
    shop = await openShop({ ZOOKEEPER: `127.0.0.1:${zookeeper.port}` });
    browser = await launchBrowser();
  }, 3 * CALL_TIMEOUT);

  afterAll(async () => {
    await browser?.close();
    await shop?.stop();
    await zookeeper?.dispose();
  });

  const visit = () => visitAt(browser, shop.url, { query: queryOf(LONG) });
  const states = (page: Page) => page.locator('.instance .state').allTextContents();
  const isSilent = async (page: Page) => {
    await expect
      .poll(() => linkState(page).textContent())
      .toMatch(/^ZooKeeper has not answered for \d+\.\d s\./);
  };
  /** What two tabs must agree on. */
  const shownBy = async (page: Page) => ({
    log: await logOf(page),
    verdicts: await verdictsOf(page),
    tallies: await page.locator('.tally').allTextContents(),
  });

  it('says that ZooKeeper is silent while it is stopped, and shows which sessions were lost', async () => {
    const [page, other] = [await visit(), await visit()];
    await start(page);
    await expect
      .poll(async () => (await verdictsOf(page))[0], { timeout: CALL_TIMEOUT })
      .toMatch(/^[2-9] phones sold/);
    process.kill(zookeeper.pid, 'SIGSTOP');
    onTestFinished(() => void process.kill(zookeeper.pid, 'SIGCONT'));
    const stoppedAt = performance.now();
    await isSilent(page);
    // One second, and the time that a busy machine needs to draw the page.
    expect(performance.now() - stoppedAt).toBeLessThan(2_000);
    await isSilent(other);
    await expect
      .poll(() => states(page))
      .toEqual(Array(3).fill(expect.stringMatching(/^not confirmed for/)));
    await expect
      .poll(() => logOf(page))
      .toContainEqual(expect.stringContaining('stopped answering'));
    await page.reload();
    await isSilent(page);
    await expect
      .poll(() => linkState(page).textContent(), { timeout: CALL_TIMEOUT })
      .toMatch(/answered for (8|9|1\d)\.\d s/);
    process.kill(zookeeper.pid, 'SIGCONT');
    await expect
      .poll(() => logOf(page), { timeout: CALL_TIMEOUT })
      .toContainEqual(expect.stringContaining('ZooKeeper answers again.'));
    await expect.poll(() => linkState(page).textContent()).toMatch(/^Live/);
    await over(page);
    await over(other);
    // No purchase lasts as long as a session, so each hold had ended when the sessions were lost.
    for (const number of [1, 2, 3]) {
      expect(await logOf(page)).toContainEqual(
        expect.stringContaining(`Instance ${number} lost its session, and every lock with it.`),
      );
    }
    const [verdict] = await verdictsOf(page);
    expect(verdict).toMatch(/^(None sold twice, but|Sold exactly 30|\d+ phones? (is|are) left)/);
    expect(await shownBy(other)).toEqual(await shownBy(page));
    await other.reload();
    await over(other);
    await expect.poll(() => shownBy(other)).toEqual(await shownBy(page));
  });

  it('is not green when all instances were killed with buyers unanswered', async () => {
    const [page, other] = [await visit(), await visit()];
    await start(page);
    await expect
      .poll(async () => (await verdictsOf(page))[0], { timeout: CALL_TIMEOUT })
      .toMatch(/^[1-9] phones? sold/);
    for (const number of ['1', '2', '3']) await act(page, 'Kill', number);
    await expect.poll(() => states(page)).toEqual(Array(3).fill(expect.stringMatching(/^dead/)));
    await over(page);
    await over(other);
    const verdict = page.locator('.verdict');
    expect(await verdict.textContent()).toMatch(
      /^None sold twice, but 2\d buyers got no answer\.$/,
    );
    expect(await verdict.getAttribute('class')).toBe('verdict warn');
    await page.reload();
    await expect.poll(() => shownBy(page)).toEqual(await shownBy(other));
    for (const number of ['1', '2', '3']) {
      await act(page, 'Revive', number);
      await page
        .locator(`[data-instance="${number}"] .state`, { hasText: 'connected' })
        .waitFor({ timeout: CALL_TIMEOUT });
    }
  });
});
