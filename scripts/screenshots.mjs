// npm run docs:screenshots
import { spawn } from 'node:child_process';
import { once } from 'node:events';
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
/** A sale of about 20 seconds. */
const SLOW = 'mode=lock&buyers=30&items=30&delay=500-800';

if (!CHROMIUM) {
  console.error('no Chromium found: install it, or set CHROMIUM to its program');
  process.exit(1);
}
mkdirSync(IMAGES, { recursive: true });
const zookeeper = await startZooKeeper();
const shops = [await openShop(), await openShop({ ZOOKEEPER: zookeeper.address })];
const [shop, ofOtherZooKeeper] = shops;
const browser = await launchBrowser();
try {
  await sales();
  await sleepingHolder();
  await killedHolder();
  await silence();
} finally {
  await browser.close();
  zookeeper.process.kill('SIGCONT');
  for (const each of shops) await each.stop();
  zookeeper.process.kill();
}

async function sales() {
  const light = await open();
  const dark = await open({ colorScheme: 'dark' });
  const chinese = await open({ lang: 'zh' });
  const phone = await open({ colorScheme: 'dark', viewport: PHONE });
  await picture(light, 'live-idle');
  await press(light, 'Run both');
  await light.waitForTimeout(RUNNING);
  await picture(light, 'live-running');
  for (const page of [light, dark, chinese, phone]) {
    await over(page);
    await page.locator('.primary[aria-disabled=false]').waitFor({ timeout: LIMIT });
  }
  await picture(light, 'live-oversold');
  await picture(dark, 'live-dark');
  await picture(chinese, 'live-chinese');
  await phone
    .locator('.sale')
    .last()
    .evaluate((sale) => sale.scrollIntoView());
  await picture(phone, 'live-phone');
}

async function sleepingHolder() {
  const page = await open();
  await press(page, 'The holder that sleeps');
  await logged(page, 'The fence refused');
  await page.locator('.primary[aria-disabled=false]').waitFor({ timeout: LIMIT });
  await picture(page, 'live-refused-write');
  // The chart alone, for the front page of the site.
  await picture(page, 'holder-that-sleeps', { x: 40, y: 520, width: 1200, height: 460 });
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
}

/** ZooKeeper is stopped (SIGSTOP) in the middle of a sale. */
async function silence() {
  const page = await open({ url: ofOtherZooKeeper.url, query: SLOW });
  await press(page, 'Run');
  await page.waitForTimeout(RUNNING);
  zookeeper.process.kill('SIGSTOP');
  await logged(page, 'ZooKeeper stopped answering');
  await page.waitForTimeout(RUNNING);
  await picture(page, 'live-silent');
  zookeeper.process.kill('SIGCONT');
  await over(page);
}

/** Starts a ZooKeeper server in a process of its own, which can be stopped and continued. */
async function startZooKeeper() {
  const program = `import { EmbeddedZooKeeper } from 'nestjs-zookeeper/embedded';
    const server = await EmbeddedZooKeeper.start();
    console.log(server.connectString);
    setInterval(() => {}, 60_000);`;
  const child = spawn(process.execPath, ['--input-type=module', '--eval', program], {
    cwd: fileURLToPath(new URL('..', import.meta.url)),
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [output] = await once(child.stdout, 'data');
  return { process: child, address: String(output).trim() };
}

async function open(options = {}) {
  const { url = shop.url, lang = 'en', query = 'mode=both' } = options;
  const { viewport = DESKTOP, colorScheme = 'light' } = options;
  const page = await browser.newPage({ colorScheme, viewport, reducedMotion: 'reduce' });
  await page.goto(`${url}/?lang=${lang}&${query}`);
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
