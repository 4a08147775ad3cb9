import { setTimeout as delay } from 'node:timers/promises';
import { SessionExpiredError } from 'nestjs-zookeeper/recipes';
import { now } from '../faults/clock.mjs';
import { expireSession } from '../faults/expire-session.mjs';

/** Milliseconds each way of a slow network: a quarter of what would stall a connection. */
const LATENCY = 80;
/** How many replies are dropped one after the other, and milliseconds between them. */
const REPLIES = 3;
const BETWEEN_REPLIES = 150;
/** Milliseconds: a session that did not end by then never will. */
const PATIENCE = 20_000;

/** Each resolves when it is over; what it returns is added to its record. */
const ON_WORKERS = {
  async cut({ links }, { duration }) {
    for (const link of links) await link.down();
    await delay(duration);
    for (const link of links) await link.up();
  },

  stall: (worker, fault) => held(worker, fault, (link) => link.silence()),
  deafen: (worker, fault) => held(worker, fault, (link) => link.deafen(true)),
  mute: (worker, fault) => held(worker, fault, (link) => link.mute(true)),

  async delay({ links }, { duration }) {
    for (const link of links) link.latency = LATENCY;
    await delay(duration);
    for (const link of links) link.latency = 0;
  },

  async 'drop-reply'({ links }) {
    for (let reply = 0; reply < REPLIES; reply++) {
      for (const link of links) link.dropReply();
      await delay(BETWEEN_REPLIES);
    }
  },

  async expire(worker, fault, { servers }) {
    const deadline = now() + PATIENCE;
    let credentials;
    for (;;) {
      try {
        credentials ??= await worker.ask('credentials');
        return await expireSession(await servers.anyPort(), credentials);
      } catch (error) {
        // It was over already.
        if (error instanceof SessionExpiredError) return;
        // Another fault came between: only a session that is over is certain.
        if (now() > deadline) throw error;
      }
    }
  },

  /** Of its event loop. */
  block: (worker, { duration }) => worker.ask('block', duration),

  async stop(worker, { duration }) {
    worker.pause();
    await delay(duration);
    worker.resume();
  },

  async kill({ id }, { duration }, { fleet }) {
    await fleet.kill(id);
    await delay(duration);
    await fleet.replace(id);
  },
};

async function held({ links }, { duration, delivers }, hold) {
  for (const link of links) hold(link);
  await delay(duration);
  for (const link of links) {
    link.speak();
    // What was held back arrives late, or never.
    if (!delivers) link.cut();
  }
}

/** Deals one fault and writes it down. */
export async function deal(fault, { fleet, servers }) {
  const { kind, worker: name, duration, after } = fault;
  await delay(after);
  const from = now();
  const record = { type: 'fault', kind, worker: name, duration, from };
  if (name) {
    await ON_WORKERS[kind](fleet.worker(name), fault, { fleet, servers });
    record.healed = now();
  } else {
    // Servers serve again before the last of them is back.
    record.healed = await servers.faults[kind](duration);
  }
  record.until = now();
  fleet.record(record);
  return record;
}
