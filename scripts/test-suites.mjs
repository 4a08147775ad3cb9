// The suites of scripts/test.mjs: `npm test` runs the suite `default`, `npm run test:real` the suite `real`, and so on.
// JavaScript with types in comments: scripts/test.mjs needs this file before anything is compiled.
import { existsSync } from 'node:fs';
import { CHROMIUM } from './browser.mjs';
import { CURATOR_JARS, missingJars, ZOOKEEPER_JARS } from './faults/jars.mjs';
import { pythonWithKazoo, runs } from './programs.mjs';

/**
 * @typedef {object} Suite
 * @property {string} tests what the suite tests
 * @property {readonly string[]} projects of vitest.config.ts
 * @property {readonly (() => string[])[]} needs functions that return the names of missing programs
 * @property {boolean} [startsScripts] whether its tests start the live page or built scripts
 * @property {boolean} [hasSlowFiles] whether the suite runs the files *.slow.test.ts instead of the others
 */

const java = () => [...missingPrograms('-version', 'java'), ...missingJars(ZOOKEEPER_JARS)];
const curator = () => [...missingPrograms('-version', 'javac'), ...missingJars(CURATOR_JARS)];
const kazoo = () => (pythonWithKazoo() ? [] : ['the Python package kazoo']);
const chromium = () => (CHROMIUM ? [] : ['Chromium, or CHROMIUM with the path of its program']);
const native = () =>
  runs(process.execPath, '-e', "require('zookeeper')") ? [] : ['the npm package zookeeper'];
const tls = () => [
  ...missingPrograms('version', 'openssl'),
  ...missingPrograms('-help', 'keytool'),
];
const zkCli = () => missingFiles('/usr/share/zookeeper/bin/zkCli.sh');
const shells = () => missingPrograms('--version', 'bash', 'zsh', 'script');
/** Programs of the KDC, and what npm needs to compile the package kerberos. */
const kerberos = () => [
  ...missingFiles(
    '/usr/sbin/krb5kdc',
    '/usr/sbin/kadmin.local',
    '/usr/bin/kinit',
    '/usr/include/gssapi/gssapi.h',
  ),
  ...missingPrograms('--version', 'python3', 'make', 'g++'),
];
const redis = () => missingPrograms('--version', 'redis-server');
const promtool = () => missingPrograms('--version', 'promtool');
const postgres = () =>
  existsSync('/usr/lib/postgresql') ? [] : ['PostgreSQL in /usr/lib/postgresql'];
const mariadb = () => missingFiles('/usr/sbin/mariadbd', '/usr/bin/mariadb-install-db');

/** @type {Readonly<Record<string, Suite>>} */
export const SUITES = {
  default: {
    tests: 'all of the library, without installed programs',
    projects: ['unit', 'unit-isolated', 'integration', 'keeper', 'sockets', 'e2e'],
    needs: [],
  },
  real: {
    tests:
      'the client and the recipes on a real ZooKeeper and an ensemble; locks and elections over both transports',
    projects: ['real', 'parity', 'faults', 'real-native', 'faults-native'],
    needs: [java, native, tls],
  },
  interop: {
    tests: 'the recipes beside Curator and kazoo, and other clients on the embedded server',
    projects: ['interop', 'interop-embedded', 'interop-native'],
    needs: [java, curator, kazoo, native, zkCli],
  },
  browser: {
    tests: 'the live page in Chromium',
    projects: ['browser'],
    needs: [chromium, java],
    startsScripts: true,
  },
  programs: {
    tests: 'Kerberos, the completion of shells, and the examples with Redis, Prisma and Prometheus',
    projects: ['programs'],
    needs: [shells, java, kerberos, redis, promtool],
  },
  databases: {
    tests: 'fences in PostgreSQL and MariaDB, with each library that opens them',
    projects: ['databases'],
    needs: [postgres, mariadb],
  },
  slow: {
    tests: 'chaos, failover, benchmark, sale under load: the files *.slow.test.ts',
    projects: ['e2e', 'sockets'],
    needs: [java, curator, kazoo, native, mariadb],
    startsScripts: true,
    hasSlowFiles: true,
  },
};

/** @param {readonly string[]} files */
function missingFiles(...files) {
  return files.filter((file) => !existsSync(file));
}

/**
 * @param {string} option an option that makes each program exit at once, such as `--version`
 * @param {readonly string[]} programs
 */
function missingPrograms(option, ...programs) {
  return programs.filter((program) => !runs(program, option));
}
