// The README's test command: builds, then runs every Vitest project this machine can run.
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { startVitest } from 'vitest/node';

// The embedded server's worker runs from dist, the sample's instances from dist-sample.
execFileSync('npm', ['run', '--silent', 'build'], { stdio: 'inherit' });
execFileSync('npm', ['run', '--silent', 'build:sample'], { stdio: 'inherit' });

const projects = ['unit', 'embedded-wire', 'interop-embedded', 'e2e'];
const leftOut = [];
const native = await import('zookeeper').then(
  () => true,
  () => false,
);
if (native) projects.push('embedded');
else leftOut.push('the tests over the native transport (missing here: the npm package zookeeper)');
add(['java'], ['zookeeper'], 'real', 'the integration tests on a real ZooKeeper');
add(['java'], ['zookeeper'], 'faults', 'the tests on an ensemble');
add(
  ['java', 'javac'],
  ['zookeeper', 'curator-recipes'],
  'interop',
  'the tests beside Apache Curator',
);
if (process.env.CI && leftOut.length > 0) {
  console.error(`CI has to run everything, but would leave out ${leftOut.join('; ')}.`);
  process.exit(1);
}

const vitest = await startVitest('test', process.argv.slice(2), {
  project: projects,
  watch: false,
});
const tests = vitest.state.getTestModules().flatMap((module) => [...module.children.allTests()]);
const count = (state) => tests.filter((test) => test.result().state === state).length;
await vitest.close();

for (const what of leftOut) console.log(`Left out: ${what}.`);
console.log(`${count('passed')} passed, ${count('failed')} failed, ${count('skipped')} skipped`);

/** A project, over both transports, that needs programs, and jars of Debian's packages. */
function add(programs, jars, project, what) {
  const missing = [
    ...programs.filter((program) => !runs(program)),
    ...jars.map((jar) => `/usr/share/java/${jar}.jar`).filter((jar) => !existsSync(jar)),
  ];
  if (missing.length === 0) projects.push(`${project}-wire`, ...(native ? [project] : []));
  else leftOut.push(`${what} (missing here: ${missing.join(', ')})`);
}

function runs(program) {
  try {
    execFileSync(program, ['-version'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}
