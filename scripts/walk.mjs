// npm run check:walk
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { freePorts } from './faults/real-server.mjs';
import { readOptions } from './options.js';
import { inScratch, pack, root, run } from './packed.mjs';

/** Milliseconds until the application must have started. */
const START_LIMIT = 60_000;

readOptions({
  name: 'check:walk',
  about: `Follows the "Five minutes" of the README: creates a Nest application, installs the packed package, copies
the files of the page, and sends two requests at once.

The exit code is 0 if one request runs and the other one is rejected, 1 if not, and 2 for a wrong option.`,
  options: {},
});

const [commands, controller, module, main, requests] = await quickStart();

await inScratch(walk).then(
  () => console.log('One request ran, the other one was rejected.'),
  ({ message }) => {
    console.error(`FAILED: ${message}`);
    process.exitCode = 1;
  },
);

async function walk(directory) {
  const tarball = await pack(directory);
  step(commands);
  const install = commands.replace('install nestjs-zookeeper', `install ${tarball}`);
  await shell(install.replace('new shop', 'new shop --skip-git'), directory);
  const app = join(directory, 'shop');
  await addByNest(app);
  await writeFile(join(app, 'src/reports.controller.ts'), controller);
  await writeFile(join(app, 'src/app.module.ts'), module);
  await writeFile(join(app, 'src/main.ts'), main);
  step('npm start');
  const [port] = await freePorts(1);
  const server = spawn('npm', ['start'], {
    cwd: app,
    env: { ...process.env, PORT: String(port) },
    stdio: ['ignore', 'inherit', 'inherit'],
    detached: true,
  });
  try {
    await listening(server, port);
    step(requests);
    const { stdout } = await shell(requests.replaceAll(':3000', `:${port}`), app);
    console.log(stdout);
    const excluded = stdout.match(/"code":"BUSY"/g)?.length;
    const ran = stdout.match(/"fencingToken":"\d+"/g)?.length;
    if (ran !== 1 || excluded !== 1)
      throw new Error('the lock did not reject one of the two requests');
  } finally {
    const closed = once(server, 'close');
    process.kill(-server.pid);
    await closed;
  }
}

async function quickStart() {
  const readme = await readFile(join(root, 'README.md'), 'utf8');
  const [, section] = /^## Five minutes\n(.*?)^## /ms.exec(readme);
  return [...section.matchAll(/^```\w+\n(.*?)^```$/gms)].map(([, code]) => code);
}

/** Runs the schematic with the CLI of the new application. */
async function addByNest(app) {
  const add = 'npx nest add nestjs-zookeeper';
  step(add);
  await shell(`${add} --skip-install`, app);
  const added = await readFile(join(app, 'src/app.module.ts'), 'utf8');
  if (!added.includes('imports: [ZkModule.forRoot(')) throw new Error(`not added:\n${added}`);
  const started = await readFile(join(app, 'src/main.ts'), 'utf8');
  if (!started.includes('app.enableShutdownHooks();')) throw new Error(`not added:\n${started}`);
  await shell('npx tsc --noEmit', app);
}

function shell(command, cwd) {
  // npx asks before it installs the CLI; the variable answers yes.
  return run('bash', ['-ec', command], { cwd, env: { ...process.env, npm_config_yes: 'true' } });
}

async function listening(server, port) {
  const deadline = performance.now() + START_LIMIT;
  while (performance.now() < deadline && server.exitCode === null) {
    const answer = await fetch(`http://localhost:${port}`).catch(() => undefined);
    if (answer) return;
    await delay(200);
  }
  throw new Error('the application did not start');
}

function step(command) {
  console.log(`$ ${command.trim().replaceAll('\n', '\n$ ')}`);
}
