// redlock.mjs <port>: node-redlock on one Redis, with its default options but without a limit of retries.
import { Redis } from 'ioredis';
import redlock from 'redlock';
import { drive, loadOf } from './drive.mjs';
import { memory } from './memory.mjs';
import { Sections } from './section.js';
import { serve } from './serve.mjs';

/** Milliseconds: longer than any critical section here, so that no lock is extended. */
const DURATION = 30_000;

const [port] = process.argv.slice(2);
const Redlock = redlock.default ?? redlock;
const client = new Redis({ port: Number(port), host: '127.0.0.1' });
const locks = new Redlock([client], { retryCount: -1 });
// Each failed attempt to acquire a lock emits an error.
locks.on('error', () => {});
await client.ping();

serve({
  async run({ path, ...parameters }) {
    const sections = new Sections(1);
    const result = await drive(async (key) => {
      const lock = await locks.acquire([`${path}/${key}`], DURATION);
      const granted = await sections.visit(key);
      await lock.release();
      return granted;
    }, loadOf(parameters));
    return { ...result, violations: sections.violations };
  },
  memory({ path, waiters }) {
    return memory(
      Number(waiters),
      () => locks.acquire([path], DURATION),
      () => client.ping(),
    );
  },
});
