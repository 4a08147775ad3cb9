import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Browser, BrowserContextOptions, Locator, Page } from 'playwright-core';
import { expect, onTestFinished } from 'vitest';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** Time limit of a sale in milliseconds, on a busy machine. */
export const CALL_TIMEOUT = 90_000;

export interface VisitOptions extends BrowserContextOptions {
  /** The query of the page's address. */
  readonly query?: string;
}

/** Opens the page in a fresh context, in English unless the query says otherwise. Its console must stay empty. */
export async function visit(
  browser: Browser,
  url: string,
  { query = 'lang=en', ...options }: VisitOptions = {},
): Promise<Page> {
  const page = await openQuietly(browser, `${url}/?${query}`, options);
  await page.locator('.link-state.live').waitFor();
  return page;
}

/** Opens any page in a fresh context. Its console must stay empty. */
export async function openQuietly(
  browser: Browser,
  url: string,
  options: BrowserContextOptions = {},
): Promise<Page> {
  const context = await browser.newContext({ reducedMotion: 'reduce', ...options });
  const page = await context.newPage();
  const complaints: string[] = [];
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) complaints.push(message.text());
  });
  page.on('pageerror', (error) => complaints.push(String(error)));
  onTestFinished(async () => {
    expect(complaints).toEqual([]);
    await context.close();
  });
  await page.goto(url);
  return page;
}

export interface Order {
  readonly mode: string;
  readonly buyers: number;
  readonly items: number;
  readonly delay: string;
}

/** The query of a link with these settings. */
export const queryOf = (order: Order, lang = 'en') =>
  String(new URLSearchParams({ ...order, lang } as unknown as Record<string, string>));

/** Starts the sale of the page's settings. Resolves when the page shows it. */
export async function start(page: Page): Promise<void> {
  const sale = page.locator('.verdict').last();
  const before = Number((await sale.getAttribute('data-sale')) ?? 0);
  const button = page.locator('.primary');
  await expect.poll(() => button.getAttribute('aria-disabled')).toBe('false');
  await button.click();
  await expect
    .poll(async () => Number(await sale.getAttribute('data-sale')))
    .toBeGreaterThan(before);
}

/** Resolves when the page shows that all of its sales are over. */
export async function over(page: Page): Promise<void> {
  const running = page.locator('.verdict:not([data-over=true])');
  await expect.poll(() => running.count(), { timeout: CALL_TIMEOUT }).toBe(0);
}

export const logOf = (page: Page): Promise<string[]> => page.locator('.log li').allTextContents();
export const verdictsOf = (page: Page): Promise<string[]> =>
  page.locator('.verdict').allTextContents();
export const linkState = (page: Page): Locator => page.locator('.link-state');

/** The number of the instance that holds the lock, when there is one. */
export async function holder(page: Page): Promise<string> {
  const holding = page.locator('.instance', { has: page.locator('.badge:not(.plain)') });
  await holding.first().waitFor({ timeout: CALL_TIMEOUT });
  return (await holding.first().getAttribute('data-instance'))!;
}

/** Presses a button of an instance. */
export const act = (page: Page, action: string, instance: string) =>
  page.getByRole('button', { name: `${action}: instance ${instance}` }).click();

/** Violations that axe-core finds in the page as it is. */
export async function violationsOf(page: Page): Promise<string[]> {
  await page.evaluate(AXE);
  return page.evaluate<string[]>(`axe.run(document).then(({ violations }) =>
    violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => id + ': ' + html)))`);
}
