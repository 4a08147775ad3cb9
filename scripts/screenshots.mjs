// npm run docs:screenshots
import { mkdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { CHROMIUM, launchBrowser, openShop } from './browser.mjs';
import { readOptions } from './options.mjs';

readOptions({
  name: 'docs:screenshots',
  about: `Writes pictures of the states of the live page to docs/images. Needs Chromium; the environment variable
CHROMIUM names its program.`,
  options: {},
});

const IMAGES = fileURLToPath(new URL('../docs/images/', import.meta.url));
const DESKTOP = { width: 1280, height: 1130 };
const PHONE = { width: 390, height: 844 };
/** Milliseconds within which a sale or a scenario must be over. */
const LIMIT = 120_000;
/** Milliseconds of the run before a picture of a running sale. */
const RUNNING = 2_000;
/** A sale of about 20 seconds, with long holds: the page must find the holder, and kill it. */
const SLOW = 'mode=lock&buyers=10&items=10&delay=1500-2000';

if (!CHROMIUM) {
  console.error('no Chromium found: install it, or set CHROMIUM to its program');
  process.exit(1);
}
mkdirSync(IMAGES, { recursive: true });
const shop = await openShop();
const browser = await launchBrowser();
try {
  await sales();
  await sleepingHolder();
  await killedHolder();
  await silence();
} finally {
  await browser.close();
  await shop.stop();
}

async function sales() {
  const light = await open();
  await picture(light, 'live-idle');
  // The first sale starts the program's compiler. A busy machine delays the answers of ZooKeeper: then once more.
  for (let run = 0, silences = -1; run < 2 || silences < (await silencesOf(light)); run++) {
    silences = await silencesOf(light);
    await press(light, 'Run both');
    await light.locator('.primary[aria-disabled=true]').waitFor();
    await light.waitForTimeout(RUNNING);
    await picture(light, 'live-running');
    await light.locator('.primary[aria-disabled=false]').waitFor({ timeout: LIMIT });
  }
  await picture(light, 'live-oversold');
  await picture(await open({ colorScheme: 'dark' }), 'live-dark');
  await picture(await open({ lang: 'zh' }), 'live-chinese');
  const phone = await open({ colorScheme: 'dark', viewport: PHONE });
  await phone
    .locator('.sale')
    .last()
    .evaluate((sale) => sale.scrollIntoView());
  await picture(phone, 'live-phone');
}

function silencesOf(page) {
  return page.locator('.log li', { hasText: 'ZooKeeper stopped answering' }).count();
}

async function sleepingHolder() {
  const page = await open();
  const dark = await open({ colorScheme: 'dark' });
  // The front page of the site names these instances.
  const isAsDescribed = () =>
    page
      .locator('.log li', { hasText: 'The lock moved on from instance 3 to instance 2.' })
      .count();
  while (!(await isAsDescribed())) {
    await press(page, 'The holder that sleeps');
    await page.locator('.primary[aria-disabled=true]').waitFor();
    await page.locator('.primary[aria-disabled=false]').waitFor({ timeout: LIMIT });
  }
  await picture(page, 'live-refused-write');
  // The chart alone, for the front page.
  const chart = { x: 40, y: 520, width: 1200, height: 460 };
  await picture(page, 'holder-that-sleeps', chart);
  await picture(dark, 'holder-that-sleeps-dark', chart);
}

async function killedHolder() {
  const page = await open({ query: SLOW });
  await press(page, 'Run');
  await page.waitForTimeout(RUNNING);
  const holder = page.locator('.instance', { has: page.locator('.badge:not(.plain)') }).first();
  const number = await holder.getAttribute('data-instance');
  await press(page, `Kill: instance ${number}`);
  await logged(page, 'died');
  await page.waitForTimeout(RUNNING);
  await picture(page, 'live-killed');
  await over(page);
  await press(page, `Revive: instance ${number}`);
  await page.locator(`[data-instance="${number}"] .state`, { hasText: 'connected' }).waitFor();
}

/** ZooKeeper is paused in the middle of a sale. */
async function silence() {
  const page = await open({ query: SLOW });
  await press(page, 'Run');
  await page.waitForTimeout(RUNNING);
  await press(page, 'Pause ZooKeeper');
  await logged(page, 'ZooKeeper stopped answering');
  await page.waitForTimeout(RUNNING);
  await picture(page, 'live-silent');
  await press(page, 'Resume ZooKeeper');
  await over(page);
}

async function open(options = {}) {
  const { lang = 'en', query = 'mode=both' } = options;
  const { viewport = DESKTOP, colorScheme = 'light' } = options;
  const page = await browser.newPage({ colorScheme, viewport, reducedMotion: 'reduce' });
  await page.goto(`${shop.url}/?lang=${lang}&${query}`);
  await page.locator('.link-state.live').waitFor();
  return page;
}

async function press(page, name) {
  const button = page.getByRole('button', { name, exact: true });
  await button.and(page.locator('[aria-disabled=false]')).click();
}

async function logged(page, text) {
  await page.locator('.log li', { hasText: text }).first().waitFor({ timeout: LIMIT });
}

async function over(page) {
  await page.locator('.verdict[data-sale]').first().waitFor({ timeout: LIMIT });
  while ((await page.locator('.verdict:not([data-over=true])').count()) > 0) {
    await page.waitForTimeout(100);
  }
}

async function picture(page, name, clip) {
  await page.mouse.move(0, 0);
  await page.screenshot({ path: `${IMAGES}${name}.png`, clip });
  console.log(
    `docs/images/${name}.png: ${(await page.locator('.verdict').allTextContents()).join(' ')}`,
  );
}
