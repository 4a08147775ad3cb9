// npm run docs:screenshots
import { mkdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { CHROMIUM, launchBrowser, openShop } from './browser.mjs';
import { readOptions } from './options.js';

readOptions({
  name: 'docs:screenshots',
  about: `Writes the README's pictures of the live page to docs/images: an oversold sale, an exact one, one whose
holder was killed, and one on a phone. Needs Chromium; the environment variable CHROMIUM names its program.`,
  options: {},
});

const IMAGES = fileURLToPath(new URL('../docs/images/', import.meta.url));
const DESKTOP = { width: 1180, height: 1000 };
const PHONE = { width: 390, height: 844 };
/** Milliseconds within which a sale must be over. */
const SALE_LIMIT = 120_000;

const PICTURES = [
  { name: 'live-oversold', mode: 'none', colorScheme: 'light', viewport: DESKTOP },
  { name: 'live-locked', mode: 'lock', colorScheme: 'light', viewport: DESKTOP },
  { name: 'live-killed', mode: 'lock', kill: true, colorScheme: 'dark', viewport: DESKTOP },
  { name: 'live-phone', mode: 'lock', colorScheme: 'dark', viewport: PHONE },
];

if (!CHROMIUM) {
  console.error('no Chromium found: install it, or set CHROMIUM to its program');
  process.exit(1);
}
mkdirSync(IMAGES, { recursive: true });
const shop = await openShop();
const browser = await launchBrowser();
try {
  for (const [i, { name, mode, kill, colorScheme, viewport }] of PICTURES.entries()) {
    const page = await browser.newPage({ colorScheme, viewport });
    await page.goto(shop.url);
    await page.locator('.modes label', { has: page.locator(`[value=${mode}]`) }).click();
    await page.getByRole('button', { name: 'Start the sale' }).click();
    const verdict = page.locator('#verdict');
    await page.locator(`#verdict[data-sale="${i + 1}"]`).waitFor();
    const over = page.locator(`#verdict[data-sale="${i + 1}"][data-over=true]`);
    if (kill) await killHolder(page);
    else await over.waitFor({ timeout: SALE_LIMIT });
    const isPhone = viewport === PHONE;
    if (isPhone) await page.locator('.sale').evaluate((sale) => sale.scrollIntoView());
    await page.screenshot({ path: `${IMAGES}${name}.png`, fullPage: !isPhone });
    console.log(`docs/images/${name}.png: ${await verdict.textContent()}`);
    await over.waitFor({ timeout: SALE_LIMIT });
    await page.close();
  }
} finally {
  await browser.close();
  await shop.stop();
}

/** Kills the holder in the middle of the sale; the others wait until its session expires. */
async function killHolder(page) {
  await page.locator('#orders', { hasText: /^[4-9]\d$/ }).waitFor({ timeout: SALE_LIMIT });
  const holder = await page.locator('#queue .holding').getAttribute('data-instance');
  await page.getByRole('button', { name: `Kill instance ${holder}` }).click();
  await page.locator('#log', { hasText: 'was killed' }).waitFor();
}
