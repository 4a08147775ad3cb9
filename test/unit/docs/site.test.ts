import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { problemsOf } from '../../../scripts/docs/site.mjs';

let site: string;
beforeEach(() => {
  site = mkdtempSync(join(tmpdir(), 'nestjs-zookeeper-site-'));
  mkdirSync(join(site, 'guides'));
  writeFileSync(join(site, 'guides/locks.html'), '<h2 id="several-keys">Several keys</h2>');
});
afterEach(() => rmSync(site, { recursive: true }));

/** Returns the problems of a site whose home page has this text. */
function problemsWith(html: string): string[] {
  writeFileSync(join(site, 'index.html'), html);
  return problemsOf(site);
}

describe('the check of the documentation site', () => {
  it.each(['/guides/locks', './guides/locks#several-keys', '/', 'https://x.org/'])(
    'accepts a link to %s',
    (target) => expect(problemsWith(`<a class="link" href="${target}">x</a>`)).toEqual([]),
  );

  it.each(['/guides/lock', '/guides/locks#keys', '#keys'])('reports a link to %s', (target) =>
    expect(problemsWith(`<a href="${target}">x</a>`)).toEqual([`index.html links to ${target}`]),
  );

  it.each([
    '<script src="https://x.org/a.js"></script>',
    '<img alt="" src="https://x.org/a.js">',
    '<link rel="stylesheet" href="https://x.org/a.js">',
    '<style>@import url("https://x.org/a.js");</style>',
    '<style>p { background: url(https://x.org/a.js) }</style>',
  ])('reports %s', (html) =>
    expect(problemsWith(html)).toEqual(['index.html loads https://x.org/a.js']),
  );

  it('reports a file that does not exist', () =>
    expect(problemsWith('<img src="/a.png">')).toEqual([
      'index.html loads /a.png, which does not exist',
    ]));
});
