import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** Attributes with which a page loads a file. The `href` of other elements is a link that a reader follows. */
const LOADS = /<(?:script|img|iframe|source)\b[^>]*? src="([^"]*)"|<link\b[^>]*? href="([^"]*)"/g;
const STYLE_LOADS = /@import\s+(?:url\()?["']?([^"')\s;]+)|url\(["']?([^"')]+)/g;

/**
 * Returns the broken links of a built site, and the files that its pages load from another origin.
 *
 * @param {string} site
 */
export function problemsOf(site) {
  const files = readdirSync(site, { encoding: 'utf8', recursive: true }).map((file) =>
    file.replaceAll('\\', '/'),
  );
  const pages = new Map(
    files
      .filter((file) => file.endsWith('.html'))
      .map((file) => [file, readFileSync(join(site, file), 'utf8')]),
  );
  /** @type {string[]} */
  const problems = [];
  for (const [page, html] of pages) {
    for (const [, target] of html.matchAll(/<a\b[^>]*? href="([^"]*)"/g)) {
      if (!isExternal(target) && !isReachable(page, target))
        problems.push(`${page} links to ${target}`);
    }
    for (const url of captured(html, LOADS)) {
      if (url.startsWith('data:')) continue;
      if (isExternal(url)) problems.push(`${page} loads ${url}`);
      else if (!existsSync(join(site, url.startsWith('/') ? '' : dirname(page), url)))
        problems.push(`${page} loads ${url}, which does not exist`);
    }
  }
  for (const file of [...pages.keys(), ...files.filter((name) => name.endsWith('.css'))]) {
    const text = readFileSync(join(site, file), 'utf8');
    for (const url of captured(text, STYLE_LOADS)) {
      if (isExternal(url)) problems.push(`${file} loads ${url}`);
    }
  }
  return problems;

  /**
   * @param {string} page
   * @param {string} target
   */
  function isReachable(page, target) {
    const { pathname, hash } = new URL(target, `http://site/${page}`);
    const path = decodeURIComponent(pathname).slice(1);
    const file = [path, `${path}.html`, `${path}index.html`].find((name) => pages.has(name));
    if (!file) return files.includes(path) && !hash;
    return !hash || pages.get(file)?.includes(` id="${decodeURIComponent(hash.slice(1))}"`);
  }
}

/**
 * @param {string} text
 * @param {RegExp} pattern
 */
function captured(text, pattern) {
  return [...text.matchAll(pattern)].map((groups) => groups.slice(1).find(Boolean) ?? '');
}

/** @param {string} url */
function isExternal(url) {
  return /^(?!data:)(?:[a-z]+:|\/\/)/i.test(url);
}
