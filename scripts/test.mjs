// npm test, npm run test:real, … [-- FILE...]
// Builds, then runs one part of the tests. `npm test` needs Node and nothing else. Every other part needs programs, and
// fails if one is missing.
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { createVitest } from 'vitest/node';
import { build } from './build.mjs';
import { CHROMIUM } from './browser.mjs';
import { CURATOR_JARS, missingJar, ZOOKEEPER_JARS } from './faults/jars.mjs';

const SLOWEST = 10;

/**
 * @typedef {object} Part
 * @property {string} tests what the part tests
 * @property {readonly string[]} projects of vitest.config.ts
 * @property {readonly (() => string | undefined)[]} needs functions that return the name of a program that is missing
 * @property {boolean} [startsScripts] whether its tests start the live page or built scripts
 * @property {boolean} [slow] whether the part runs the files *.slow.test.ts instead of the others
 */

const java = () => missingProgram('-version', 'java') ?? missingJar(ZOOKEEPER_JARS);
const curator = () => missingProgram('-version', 'javac') ?? missingJar(CURATOR_JARS);
const kazoo = () =>
  ['python3', '/usr/bin/python3'].some((python) => runs(python, '-c', 'import kazoo'))
    ? undefined
    : 'the Python package kazoo';
const chromium = () =>
  CHROMIUM ? undefined : 'Chromium, or CHROMIUM with the path of its program';
const native = () =>
  runs(process.execPath, '-e', "require('zookeeper')") ? undefined : 'the npm package zookeeper';
const tls = () => missingProgram('version', 'openssl') ?? missingProgram('-help', 'keytool');
const zkCli = () => missingFile('/usr/share/zookeeper/bin/zkCli.sh');
const shells = () => missingProgram('--version', 'bash', 'zsh', 'script');
/** Programs of the KDC, and what npm needs to compile the package kerberos. */
const kerberos = () =>
  missingFile(
    '/usr/sbin/krb5kdc',
    '/usr/sbin/kadmin.local',
    '/usr/bin/kinit',
    '/usr/include/gssapi/gssapi.h',
  ) ?? missingProgram('--version', 'python3', 'make', 'g++');
const mariadb = () => missingFile('/usr/sbin/mariadbd', '/usr/bin/mariadb-install-db');

/** @type {Readonly<Record<string, Part>>} */
const PARTS = {
  usual: {
    tests: 'all of the library, without installed programs',
    projects: ['unit', 'unit-isolated', 'integration', 'keeper', 'sockets', 'e2e'],
    needs: [],
  },
  real: {
    tests: 'the client and the recipes on a real ZooKeeper and an ensemble, over both transports',
    projects: ['real', 'real-wire', 'faults', 'faults-wire'],
    needs: [java, native, tls],
  },
  interop: {
    tests: 'the recipes beside Curator and kazoo, and other clients on the embedded server',
    projects: ['interop', 'interop-wire', 'interop-embedded'],
    needs: [java, curator, kazoo, native, zkCli],
  },
  browser: {
    tests: 'the live page in Chromium',
    projects: ['browser'],
    needs: [chromium, java],
    startsScripts: true,
  },
  programs: {
    tests: 'Kerberos and the completion of shells',
    projects: ['programs'],
    needs: [shells, java, kerberos],
  },
  slow: {
    tests: 'chaos, failover, benchmark, sale under load: the files *.slow.test.ts',
    projects: ['e2e', 'sockets'],
    needs: [java, curator, kazoo, native, mariadb],
    startsScripts: true,
    slow: true,
  },
};

const { values, positionals: files } = parseArgs({
  options: {
    part: { type: 'string', multiple: true },
    all: { type: 'boolean', default: false },
    help: { type: 'boolean', short: 'h', default: false },
  },
  allowPositionals: true,
});
if (values.help) {
  console.log(`Usage: node scripts/test.mjs [--part PART]… [--all] [FILE...]
  --part PART  default usual; one of
${Object.entries(PARTS)
  .map(([name, { tests }]) => `                 ${name.padEnd(9)} ${tests}`)
  .join('\n')}
  --all        all parts
  FILE         run only the test files whose path contains FILE`);
  process.exit();
}
const names = values.all ? Object.keys(PARTS) : (values.part ?? ['usual']);
const parts = names.map((name) => {
  const part = PARTS[name];
  if (!part) fail(`--part must be one of ${Object.keys(PARTS).join(', ')}, got "${name}".`, 2);
  return { name, ...part };
});
for (const { name, needs } of parts) {
  const missing = needs.map((find) => find()).filter(Boolean);
  if (missing.length > 0) fail(`The part ${name} needs ${missing.join(', ')}.`, 2);
}

// The tests start the embedded server's worker and the sample's instances, some parts the live page and the scripts too.
build('lib', 'sample');
if (parts.some(({ startsScripts }) => startsScripts)) build('page', 'scripts');

const vitest = await createVitest('test', {
  project: [...new Set(parts.flatMap(({ projects }) => projects))],
  watch: false,
});
await vitest.standalone();
const found = await vitest.globTestSpecifications(files);
const chosen = found.filter(({ project, moduleId }) =>
  parts.some(
    ({ projects, slow = false }) =>
      projects.includes(project.name) && moduleId.includes('.slow.test.') === slow,
  ),
);
if (chosen.length === 0)
  fail(`No test file of ${names.join(', ')} matches ${files.join(', ')}.`, 2);
const { testModules, unhandledErrors } = await vitest.runTestSpecifications(chosen);
const tests = testModules.flatMap((module) => [...module.children.allTests()]);
/** @param {string} state */
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
for (const test of tests.filter((test) => test.result().state === 'failed')) {
  console.log(`Failed: ${test.project.name} ${test.module.relativeModuleId} > ${test.fullName}`);
}
console.log(`${count('passed')} passed, ${count('failed')} failed, ${count('skipped')} skipped`);
process.exitCode = passed ? 0 : 1;

/**
 * @param {string} message
 * @param {number} code
 * @returns {never}
 */
function fail(message, code) {
  console.error(message);
  process.exit(code);
}

/** @param {readonly string[]} files */
function missingFile(...files) {
  return files.find((file) => !existsSync(file));
}

/**
 * @param {string} option with which the programs end at once
 * @param {readonly string[]} programs
 */
function missingProgram(option, ...programs) {
  return programs.find((program) => !runs(program, option));
}

/**
 * @param {string} program
 * @param {readonly string[]} options
 */
function runs(program, ...options) {
  try {
    execFileSync(program, options, { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}
