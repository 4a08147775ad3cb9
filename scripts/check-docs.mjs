// npm run check:docs
import { blocksOf, pages } from './docs/blocks.mjs';
import { compile } from './docs/compile.mjs';
import { missingFiles } from './docs/files.mjs';
import { brokenLinks } from './docs/links.mjs';
import { referenceProblems } from './docs/reference/pages.js';
import { run, runTests } from './docs/run.mjs';
import { countWords, testProblems, unknownCommands, WORDS } from './docs/tested-by.mjs';
import { messageOf } from './message-of.mjs';
import { readOptions } from './options.mjs';

readOptions({
  name: 'check:docs',
  about: `Checks the pages of the repository's root, of sample-app/ and of docs/: TypeScript compiles against the
published types, examples without Nest run on the embedded server, those of docs/guides/simulation.md run in Vitest,
JSON parses, each command, each link and each file of the repository exists, docs/reference/ has each option, error, metric
and log line of the source, each section of a guide names its tests, and the pages have at most ${WORDS.toLocaleString('en')} words.

The exit code is 0 if all is well, 1 if not, and 2 for a wrong option.`,
  options: {},
});

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
  ...all.flatMap(testProblems),
  ...blocks.flatMap(badJson),
  ...compile(typescript),
  ...(await referenceProblems()),
];
const words = countWords(all);
if (words > WORDS) failures.push(`docs/ has ${words} words, and may have ${WORDS}`);
await run(runnable).catch((error) => failures.push(error.message));
await runTests(tests).catch((error) => failures.push(error.message));
console.log(
  `${all.length} pages, ${words} words in docs/, ${typescript.length} TypeScript examples compiled, ${runnable.length + tests.length} of them run`,
);
for (const failure of failures) console.error(`FAILED: ${failure}`);
process.exitCode = failures.length === 0 ? 0 : 1;

function badJson({ page, line, language, code }) {
  if (language !== 'json') return [];
  try {
    JSON.parse(code);
    return [];
  } catch (error) {
    return [`${page}:${line} ${messageOf(error)}`];
  }
}
