// npm run check:docs
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { blocksOf, pages } from './docs/blocks.mjs';
import { compile } from './docs/compile.mjs';
import { missingFiles } from './docs/files.mjs';
import { brokenLinks } from './docs/links.mjs';
import { referenceProblems } from './docs/reference/pages.js';
import { run, runTests } from './docs/run.mjs';
import { messageOf } from './message-of.mjs';
import { readOptions } from './options.mjs';
import { root } from './packed.mjs';

readOptions({
  name: 'check:docs',
  about: `Checks the pages of the repository's root, of sample-app/ and of docs/: TypeScript compiles against the
published types, examples without Nest run on the embedded server, those of docs/guides/simulation.md run in Vitest,
JSON parses, each \`npm run\` command, each link and each file of the repository exists, and docs/reference/ has each option, error, metric and log line
of the source.

The exit code is 0 if all is well, 1 if not, and 2 for a wrong option.`,
  options: {},
});

const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
const all = pages();
const blocks = all.flatMap(blocksOf);
const typescript = blocks.filter(({ language }) => language === 'ts');
const tests = typescript.filter(({ page }) => page === 'docs/guides/simulation.md');
const runnable = typescript.filter(
  ({ page, code }) =>
    (code.includes("from 'nestjs-zookeeper/recipes'") && page !== 'docs/guides/simulation.md') ||
    page === 'docs/guides/reentrancy.md',
);

const failures = [
  ...all.flatMap(brokenLinks),
  ...all.flatMap(missingFiles),
  ...all.flatMap(unknownCommands),
  ...blocks.flatMap(badJson),
  ...compile(typescript),
  ...(await referenceProblems()),
];
await run(runnable).catch((error) => failures.push(error.message));
await runTests(tests).catch((error) => failures.push(error.message));
console.log(
  `${all.length} pages, ${typescript.length} TypeScript examples compiled, ${runnable.length + tests.length} of them run`,
);
for (const failure of failures) console.error(`FAILED: ${failure}`);
process.exitCode = failures.length === 0 ? 0 : 1;

function unknownCommands({ name, text }) {
  return [...text.matchAll(/npm run (?:--silent )?([a-z][\w:-]*)/g)]
    .filter(([, script]) => !(script in scripts))
    .map(([whole]) => `${name}: package.json has no script for ${whole}`);
}

function badJson({ page, line, language, code }) {
  if (language !== 'json') return [];
  try {
    JSON.parse(code);
    return [];
  } catch (error) {
    return [`${page}:${line} ${messageOf(error)}`];
  }
}
