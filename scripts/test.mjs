// The README's test command: builds, then runs every Vitest project this machine can run.
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { startVitest } from 'vitest/node';

// The embedded server's worker runs from dist, the sample's instances from dist-sample.
execFileSync('npm', ['run', '--silent', 'build'], { stdio: 'inherit' });
execFileSync('npm', ['run', '--silent', 'build:sample'], { stdio: 'inherit' });

const projects = ['unit', 'embedded', 'e2e'];
if (realZooKeeperIsInstalled()) projects.push('real');
else if (process.env.CI) {
  console.error('CI needs a real ZooKeeper: install Java and the Debian package "zookeeper".');
  process.exit(1);
}

const vitest = await startVitest('test', process.argv.slice(2), {
  project: projects,
  watch: false,
});
const tests = vitest.state.getTestModules().flatMap((module) => [...module.children.allTests()]);
const count = (state) => tests.filter((test) => test.result().state === state).length;
await vitest.close();

if (!projects.includes('real')) {
  console.log(
    'Left out: the integration tests on a real ZooKeeper (no Java or no "zookeeper" package here).',
  );
}
console.log(`${count('passed')} passed, ${count('failed')} failed, ${count('skipped')} skipped`);

function realZooKeeperIsInstalled() {
  try {
    execFileSync('java', ['-version'], { stdio: 'ignore' });
  } catch {
    return false;
  }
  return existsSync('/usr/share/java/zookeeper.jar');
}
