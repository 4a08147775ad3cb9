// npm test, npm run test:slow, npm run test:all [-- FILE...]
// Builds, then runs the Vitest projects whose programs this machine has.
//
// npm test is the quick part. What depends on the server runs on a real ZooKeeper over the native transport; what
// depends on the transport also runs on the embedded server over the wire transport; everything else runs there
// once. Slow are the files named *.slow.test.ts, the live page, the ensemble, the tests beside other libraries, the
// integration tests on the other one of those two servers, the recipes on the profiles of other servers, and the tests
// of the wire transport alone (TLS, SASL) on a real ZooKeeper. test:all runs both parts, and the integration tests also with
// the servers and transports swapped.
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { relative } from 'node:path';
import { parseArgs } from 'node:util';
import { createVitest } from 'vitest/node';
import { build } from './build.mjs';
import { CHROMIUM } from './browser.mjs';
import { CURATOR_JARS, missingJar, ZOOKEEPER_JARS } from './faults/jars.mjs';

const SLOWEST = 10;
/** Tests of the wire transport alone, which the other project on a real ZooKeeper leaves out. */
const WIRE_ALONE = /^integration\/client\/transport\/wire-/;

const { values, positionals: files } = parseArgs({
  options: {
    slow: { type: 'boolean', default: false },
    all: { type: 'boolean', default: false },
    help: { type: 'boolean', short: 'h', default: false },
  },
  allowPositionals: true,
});
if (values.help) {
  console.log(`Usage: node scripts/test.mjs [--slow | --all] [FILE...]
  --slow  run the slow tests instead of the quick ones
  --all   run both, and the integration tests with each transport on each server
  FILE    run the tests whose path contains FILE, quick or slow`);
  process.exit();
}

// Tests start the embedded server's worker, the sample's instances and the scripts.
build('lib', 'sample', 'page', 'scripts');

const leftOut = [];
const native = await import('zookeeper').then(
  () => true,
  () => false,
);
if (!native) {
  leftOut.push('the tests over the native transport (missing here: the npm package zookeeper)');
}
const projects = ['unit', 'embedded-wire', 'interop-embedded', 'e2e'];
// The recipes on the embedded server with the behaviour of other servers.
projects.push('clickhouse-keeper', 'raftkeeper');
add(['java'], ZOOKEEPER_JARS, 'real', 'the integration tests on a real ZooKeeper');
const real = projects.find((project) => project.startsWith('real'));
if (native && (values.all || real !== 'real')) projects.push('embedded');
if (real === 'real' && !values.all) projects.push('real-wire');
add(['java'], ZOOKEEPER_JARS, 'faults', 'the tests on an ensemble');
add(['java', 'javac'], CURATOR_JARS, 'interop', 'the tests beside Apache Curator');
if (CHROMIUM) projects.push('browser');
else
  leftOut.push('the tests of the live page (missing here: Chromium; CHROMIUM names its program)');
if (!runs('zsh', '--version')) {
  leftOut.push('the completion in zsh (missing here: zsh)');
}
for (const program of ['/usr/sbin/krb5kdc', '/usr/sbin/kadmin.local', '/usr/bin/kinit']) {
  if (!existsSync(program)) leftOut.push(`the tests of Kerberos (missing here: ${program})`);
}
if (process.env.CI && leftOut.length > 0) {
  console.error(`CI has to run everything, but would leave out ${leftOut.join('; ')}.`);
  process.exit(1);
}

if (values.slow || values.all) process.env.FAST_CHECK_SECONDS ??= '6';
const vitest = await createVitest('test', { project: projects, watch: false });
await vitest.standalone();
const found = await vitest.globTestSpecifications(files);
const isChosen = files.length > 0 ? isOnUsualServer : values.slow ? isSlow : isQuick;
const chosen = found.filter((specification) => values.all || isChosen(placeOf(specification)));
if (chosen.length === 0) {
  console.error(`No test file matches ${files.join(', ')}.`);
  process.exit(1);
}
const { testModules, unhandledErrors } = await vitest.runTestSpecifications(chosen);
const tests = testModules.flatMap((module) => [...module.children.allTests()]);
const count = (state) => tests.filter((test) => test.result().state === state).length;
const passed = unhandledErrors.length === 0 && testModules.every((module) => module.ok());
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
for (const what of leftOut) console.log(`Left out: ${what}.`);
const retried = tests.filter((test) => test.diagnostic()?.flaky);
for (const test of retried) {
  const { fullName, module, project } = test;
  console.log(`Passed at the second try: ${project.name} ${module.relativeModuleId} > ${fullName}`);
  for (const { message } of test.result().errors) console.log(`  ${message}`);
}
console.log(
  `${count('passed')} passed, ${retried.length} of them at the second try, ${count('failed')} failed, ${count('skipped')} skipped`,
);
process.exitCode = passed ? 0 : 1;

/** The project of a test file, and its path below the folder test. */
function placeOf({ project, moduleId }) {
  return { project: project.name, path: relative('test', moduleId).replaceAll('\\', '/') };
}

function isQuick({ project, path }) {
  if (path.includes('.slow.test.')) return false;
  if (project === 'unit' || project === 'e2e') return true;
  if (project === real) return /^integration\/(client|embedded|recipes)\//.test(path);
  if (project !== 'embedded-wire') return false;
  // The property tests run on the embedded server alone.
  return !real || !/^integration\/recipes\/(?!property-)/.test(path);
}

function isSlow(place) {
  if (!isOnUsualServer(place)) return false;
  // Random schedules: a short run of them is quick, a longer one slow.
  return !isQuick(place) || /\/property-[\w-]+\.test\.ts$/.test(place.path);
}

/** Without --all, the second project on a real ZooKeeper runs only the files that the first one leaves out. */
function isOnUsualServer({ project, path }) {
  return project !== 'real-wire' || real === 'real-wire' || WIRE_ALONE.test(path);
}

/** Adds a project that needs programs, and jars of Debian's packages. */
function add(programs, jars, project, what) {
  const missing = [...programs.filter((program) => !runs(program)), missingJar(jars)].filter(
    Boolean,
  );
  if (missing.length === 0) {
    if (native) projects.push(project);
    if (values.all || !native) projects.push(`${project}-wire`);
  } else leftOut.push(`${what} (missing here: ${missing.join(', ')})`);
}

function runs(program, option = '-version') {
  try {
    execFileSync(program, [option], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}
