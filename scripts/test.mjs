// The README's test command: builds, then runs the Vitest projects that this machine can run. What runs on a
// server and over a transport runs on both servers and over both transports: on a real ZooKeeper over the
// native one, on the embedded server over the wire. With --all also the other way round.
import { execFileSync } from 'node:child_process';
import { parseArgs } from 'node:util';
import { startVitest } from 'vitest/node';
import { CHROMIUM } from './browser.mjs';
import { CURATOR_JARS, missingJar, ZOOKEEPER_JARS } from './faults/jars.mjs';

const { values, positionals: files } = parseArgs({
  options: { all: { type: 'boolean', default: false } },
  allowPositionals: true,
});

// The embedded server's worker runs from dist, the sample's instances from dist-sample, the simulation from
// dist-scripts.
execFileSync('npm', ['run', '--silent', 'build'], { stdio: 'inherit' });
execFileSync('npm', ['run', '--silent', 'build:sample'], { stdio: 'inherit' });
execFileSync('npm', ['run', '--silent', 'build:scripts'], { stdio: 'inherit' });

const projects = ['unit', 'embedded-wire', 'interop-embedded', 'e2e'];
const leftOut = [];
const native = await import('zookeeper').then(
  () => true,
  () => false,
);
if (!native) {
  leftOut.push('the tests over the native transport (missing here: the npm package zookeeper)');
}
add(['java'], ZOOKEEPER_JARS, 'real', 'the integration tests on a real ZooKeeper');
if (native && (values.all || !projects.includes('real'))) projects.push('embedded');
add(['java'], ZOOKEEPER_JARS, 'faults', 'the tests on an ensemble');
add(['java', 'javac'], CURATOR_JARS, 'interop', 'the tests beside Apache Curator');
if (CHROMIUM) projects.push('browser');
else
  leftOut.push('the tests of the live page (missing here: Chromium; CHROMIUM names its program)');
if (process.env.CI && leftOut.length > 0) {
  console.error(`CI has to run everything, but would leave out ${leftOut.join('; ')}.`);
  process.exit(1);
}

const vitest = await startVitest('test', files, { project: projects, watch: false });
const tests = vitest.state.getTestModules().flatMap((module) => [...module.children.allTests()]);
const count = (state) => tests.filter((test) => test.result().state === state).length;
await vitest.close();

for (const what of leftOut) console.log(`Left out: ${what}.`);
for (const test of tests.filter((test) => test.diagnostic()?.flaky)) {
  const { fullName, module, project } = test;
  console.log(`Passed at the second try: ${project.name} ${module.relativeModuleId} > ${fullName}`);
  for (const { message } of test.result().errors) console.log(`  ${message}`);
}
console.log(`${count('passed')} passed, ${count('failed')} failed, ${count('skipped')} skipped`);

/** A project that needs programs, and jars of Debian's packages. */
function add(programs, jars, project, what) {
  const missing = [...programs.filter((program) => !runs(program)), missingJar(jars)].filter(
    Boolean,
  );
  if (missing.length === 0) {
    if (native) projects.push(project);
    if (values.all || !native) projects.push(`${project}-wire`);
  } else leftOut.push(`${what} (missing here: ${missing.join(', ')})`);
}

function runs(program) {
  try {
    execFileSync(program, ['-version'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}
