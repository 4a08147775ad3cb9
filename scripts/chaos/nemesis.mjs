import { setTimeout as delay } from 'node:timers/promises';
import { SessionExpiredError } from 'nestjs-zookeeper/recipes';
import { now } from '../faults/clock.js';
import { expireSession } from '../faults/expire-session.mjs';

/** The latency of a slow network in milliseconds each way: a quarter of what would break a connection. */
const LATENCY = 80;
/** The number of replies that are dropped, and the milliseconds between them. */
const REPLIES = 3;
const BETWEEN_REPLIES = 150;
/** Milliseconds within which a session must be expired. */
const EXPIRE_LIMIT = 20_000;

/** Each fault resolves when it is over. */
const ON_WORKERS = {
  async cut({ links }, { duration }) {
    for (const link of links) await link.down();
    await delay(duration);
    for (const link of links) await link.up();
  },

  stall: (worker, fault) => held(worker, fault, (link) => link.holdAll()),
  deafen: (worker, fault) => held(worker, fault, (link) => link.holdReplies(true)),
  mute: (worker, fault) => held(worker, fault, (link) => link.holdRequests(true)),

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

  async expire(worker, _, { servers }) {
    const deadline = now() + EXPIRE_LIMIT;
    let credentials;
    for (;;) {
      try {
        credentials ??= await worker.ask('credentials');
        return await expireSession(await servers.anyPort(), credentials);
      } catch (error) {
        // The session has ended already.
        if (error instanceof SessionExpiredError) return;
        // Another fault interfered: try again until the session has certainly ended.
        if (now() > deadline) throw error;
      }
    }
  },

  /** Blocks the event loop. */
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
    link.resume();
    // What was held back is delivered late, or dropped.
    if (!delivers) link.cut();
  }
}

/** Injects one fault and records it. */
export async function inject(fault, { fleet, servers }) {
  const { kind, worker: name, duration, after } = fault;
  await delay(after);
  const from = now();
  const record = { type: 'fault', kind, worker: name, duration, from };
  if (name) {
    await ON_WORKERS[kind](fleet.worker(name), fault, { fleet, servers });
    record.healed = now();
  } else {
    // A majority serves before the last server is back.
    record.healed = await servers.faults[kind](duration);
  }
  record.until = now();
  fleet.record(record);
  return record;
}
