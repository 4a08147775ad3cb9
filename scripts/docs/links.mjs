import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { root } from '../packed.mjs';

/** Returns the links of a page to files and headings that do not exist. */
export function brokenLinks({ name, text }) {
  const prose = text.replace(/^```.*?^```$/gms, '').replace(/`[^`\n]*`/g, '``');
  return [...prose.matchAll(/\]\(([^)\s]+)\)/g)]
    .map(([, target]) => target)
    .filter((target) => !/^[a-z]+:/.test(target) && !exists(name, target))
    .map((target) => `${name} links to ${target}, which does not exist`);
}

function exists(page, target) {
  const [path, anchor] = target.split('#');
  const file = path ? join(root, dirname(page), path) : join(root, page);
  if (relative(root, file).startsWith('..') || !existsSync(file)) return false;
  return !anchor || anchorsOf(readFileSync(file, 'utf8')).includes(decodeURIComponent(anchor));
}

/** Returns the anchors that GitHub generates for the headings. */
function anchorsOf(text) {
  return [...text.replace(/^```.*?^```$/gms, '').matchAll(/^#+ (.+)$/gm)].map(([, heading]) =>
    heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\s_-]/gu, '')
      .replace(/\s/g, '-'),
  );
}
