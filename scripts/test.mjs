// npm test, npm run test:real, … -- [options] [FILE...], which --help lists
// Builds, then runs one suite of the tests. The suite `default` needs Node and nothing else. Every other suite needs
// programs, and fails if one is missing.
import { relative } from 'node:path';
import { createVitest } from 'vitest/node';
import { build } from './build.mjs';
import {
  choiceOption,
  EXIT_USAGE,
  operands,
  readOptions,
  textOption,
  UsageError,
} from './options.mjs';
import { SUITES } from './test-suites.mjs';

const SLOWEST = 10;
/** Milliseconds without the end of a test after which the run fails. Files *.slow.test.ts may take longer. */
const STALLED = 300_000;

const suiteNames = Object.keys(SUITES);
/** @param {string} name */
const suitesOf = (name) => (name === 'all' ? suiteNames : [name]).map((each) => SUITES[each]);

const { suite, project, files } = readOptions(
  {
    name: 'test',
    about: `Builds, then runs one suite of the tests:

${suiteNames.map((name) => `  ${name.padEnd(9)} ${SUITES[name].tests}`).join('\n')}

The exit code is 0 if all tests pass, 1 if one fails, and 2 for a wrong option or a missing program.`,
    options: {
      suite: choiceOption('what to run (default: default)', [...suiteNames, 'all']),
      project: textOption('NAME', 'run only this project of the suite, from vitest.config.ts'),
      files: operands('FILE...', 'run only the test files whose path contains FILE'),
    },
  },
  ({ suite = 'default', project, files }) => {
    const withLine = files.find((file) => /:\d+$/.test(file));
    if (withLine) throw new UsageError(`FILE must not have a line number, but is ${withLine}`);
    const projects = suitesOf(suite).flatMap(({ projects }) => projects);
    if (project !== undefined && !projects.includes(project)) {
      throw new UsageError(
        `--project must be one of ${projects.join(', ')} in the suite ${suite}, but is ${project}`,
      );
    }
  },
);
const suites = suitesOf(suite ?? 'default');
const needs = new Set(suites.flatMap(({ needs }) => needs));
const missing = [...needs].flatMap((find) => find());
if (missing.length > 0) fail(`These tests need ${missing.join(', ')}.`);

// The tests start the embedded server's worker, the sample's instances and the examples, some suites the live page and the scripts too.
build('lib', 'sample', 'examples');
if (suites.some(({ startsScripts }) => startsScripts)) build('page', 'scripts');

const vitest = await createVitest('test', {
  project: project ? [project] : [...new Set(suites.flatMap(({ projects }) => projects))],
  watch: false,
  // The results are the same with and without the environment variable CI.
  allowOnly: false,
  update: 'none',
});
await vitest.standalone();
/** @param {string[]} names */
const find = async (...names) =>
  (await vitest.globTestSpecifications(names)).filter(({ project, moduleId }) =>
    suites.some(
      ({ projects, hasSlowFiles = false }) =>
        projects.includes(project.name) && moduleId.includes('.slow.test.') === hasSlowFiles,
    ),
  );
for (const name of files) {
  if ((await find(name)).length === 0) {
    fail(
      `No test file of the ${project ? `project ${project}` : `suite ${suite ?? 'default'}`} matches ${name}.`,
    );
  }
}
const chosen = await find(...files);
if (chosen.length === 0) fail(`The suite ${suite ?? 'default'} has no test file here.`);
const watchdog = suites.some(({ hasSlowFiles }) => hasSlowFiles) ? undefined : failIfStalled();
const { testModules, unhandledErrors } = await vitest.runTestSpecifications(chosen);
clearInterval(watchdog);
const tests = testModules.flatMap((module) => [...module.children.allTests()]);
/** @param {string} state */
const count = (state) => tests.filter((test) => test.result().state === state).length;
const unfinished = unfinishedFiles();
const passed =
  unhandledErrors.length === 0 &&
  unfinished.length === 0 &&
  testModules.every((module) => module.ok());
await vitest.close();

console.log('\nThe slowest files, in seconds:');
const bySeconds = testModules
  .map((module) => ({ module, seconds: module.diagnostic().duration / 1000 }))
  .sort((a, b) => b.seconds - a.seconds);
for (const { module, seconds } of bySeconds.slice(0, SLOWEST)) {
  console.log(
    `${seconds.toFixed(1).padStart(7)}  ${module.project.name} ${module.relativeModuleId}`,
  );
}
for (const test of tests.filter((test) => test.result().state === 'failed')) {
  console.log(`Failed: ${test.project.name} ${test.module.relativeModuleId} > ${test.fullName}`);
}
for (const module of testModules) {
  for (const { message } of module.errors()) {
    console.log(`Failed: ${module.project.name} ${module.relativeModuleId}: ${message}`);
  }
}
for (const file of unfinished) console.log(`Failed: ${file}: its process ended`);
for (const error of unhandledErrors) {
  console.log(`Failed: an error outside of the tests: ${/** @type {Error} */ (error).message}`);
}
console.log(`${count('passed')} passed, ${count('failed')} failed, ${count('skipped')} skipped`);
process.exitCode = passed ? 0 : 1;

/** Returns the chosen files that have no result. */
function unfinishedFiles() {
  const ended = vitest.state
    .getTestModules()
    .filter((module) => !['queued', 'pending'].includes(module.state()))
    .map(({ project, moduleId }) => `${project.name} ${moduleId}`);
  return chosen
    .filter(({ project, moduleId }) => !ended.includes(`${project.name} ${moduleId}`))
    .map(({ project, moduleId }) => `${project.name} ${relative(process.cwd(), moduleId)}`);
}

/** Ends this process if no test ends for a while: the tests have time limits, but the import of a file has none. */
function failIfStalled() {
  let before = -1;
  return setInterval(() => {
    const ended = vitest.state
      .getTestModules()
      .flatMap((module) => [...module.children.allTests()])
      .filter((test) => test.result().state !== 'pending').length;
    if (ended > before) return void (before = ended);
    for (const file of unfinishedFiles()) console.log(`Failed: ${file}: it does not end`);
    process.exit(1);
  }, STALLED);
}

/**
 * @param {string} message
 * @returns {never}
 */
function fail(message) {
  console.error(message);
  process.exit(EXIT_USAGE);
}
