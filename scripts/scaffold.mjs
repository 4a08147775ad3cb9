// Nest applications as the Nest CLI creates them.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { freePorts } from './faults/real-server.mjs';
import { messageOf } from './message-of.mjs';
import { run } from './packed.mjs';

/** Milliseconds until an application must have started. */
const START_LIMIT = 60_000;

/** Runs a command of a page. npx asks before it installs the CLI; the variable answers yes. */
export function shell(command, cwd) {
  return run('bash', ['-ec', command], { cwd, env: { ...process.env, npm_config_yes: 'true' } });
}

/** Runs the program of an HTTP server on a free port while `use`, which gets its URL, is running. */
export async function serve([file, ...args], { cwd, env = {} }, use) {
  const [port] = await freePorts(1);
  const server = spawn(file, args, {
    cwd,
    env: { ...process.env, ...env, PORT: String(port) },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  });
  let output = '';
  for (const stream of [server.stdout, server.stderr])
    stream.on('data', (data) => (output += data));
  const closed = once(server, 'close');
  try {
    await listening(server, port);
    return await use(`http://localhost:${port}`);
  } catch (error) {
    throw new Error(`${messageOf(error)}\n${output}`, { cause: error });
  } finally {
    // npm and the Nest CLI start the server as a child of theirs.
    if (server.exitCode === null) process.kill(-Number(server.pid));
    await closed;
  }
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
