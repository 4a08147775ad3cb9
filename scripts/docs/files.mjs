import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '../packed.mjs';

const FOLDERS = ['lib', 'test', 'scripts', 'schematics', 'sample-app', 'examples', 'docs'];
/** A path from the root of the repository. The path of a URL, of a package or of another folder does not match. */
const FROM_ROOT = new RegExp(`(?<![\\w/.@-])(?:${FOLDERS.join('|')})/[\\w./-]*\\w`, 'g');
/** The last part of a path is enough for a test, and for a file of `lib`. */
const TEST = /(?<![\w/.*-])(?:\.\.\/)*([\w./-]+\.test\.ts)\b/g;
const SOURCE = new RegExp(
  `\`((?:${readdirSync(join(root, 'lib')).join('|')})/[\\w./-]+\\.ts)\``,
  'g',
);

/** @type {readonly string[] | undefined} */
let tests;

/**
 * Returns the files and folders of this repository that a page names and that do not exist.
 *
 * @param {{ name: string; text: string }} page
 */
export function missingFiles({ name, text }) {
  const paths = [...text.matchAll(FROM_ROOT)].map(([path]) => path);
  const sources = [...text.matchAll(SOURCE)].map(([, path]) => path);
  const missing = [
    ...paths.filter((path) => !exists(path)),
    ...sources.filter((path) => !exists(`lib/${path}`)),
    ...[...text.matchAll(TEST)].map(([, path]) => path).filter((path) => !isTest(path)),
  ];
  return [...new Set(missing)].map((path) => `${name} names ${path}, which does not exist`);
}

/** @param {string} path */
function exists(path) {
  return existsSync(join(root, path));
}

/** @param {string} path */
function isTest(path) {
  tests ??= ['test', 'sample-app'].flatMap((folder) =>
    readdirSync(join(root, folder), { encoding: 'utf8', recursive: true }).map(
      (file) => `/${folder}/${file.replaceAll('\\', '/')}`,
    ),
  );
  return tests.some((file) => file.endsWith(`/${path}`));
}
