import { setTimeout as delay } from 'node:timers/promises';
import { ZkClient } from 'nestjs-zookeeper/recipes';
import { now } from '../faults/clock.js';
import { Fleet } from './fleet.mjs';
import { recoveryLimit, ROOT } from './keys.js';
import { inject } from './nemesis.mjs';
import { schedule } from './schedule.js';
import { startServers } from './servers.mjs';

/** Milliseconds between two checks of a condition. */
const POLL = 20;
/** How long to wait for a worker to recover, in multiples of the recovery limit. The checker reports it. */
const PATIENCE = 3;

/** How often the quiet time between two rounds is repeated while the machine is busy with other processes. */
const QUIETS = 3;
/** A quiet time is disturbed if a process waited for a processor for more than this part of it. */
const DISTURBED = 0.5;

/** Injects faults until the time is up. The events are in the files of `directory` then. */
export async function run(setting, onProgress) {
  const { seed, server, transport, directory, milliseconds, sessionTimeout, tickTime, signal } =
    setting;
  const names = Array.from({ length: setting.workers }, (_, index) => `w${index + 1}`);
  const limit = recoveryLimit(setting);
  let death;
  const servers = await startServers(server, { tickTime });
  const fleet = new Fleet({
    names,
    ports: servers.ports,
    directory,
    sessionTimeout,
    transport,
    seed,
    onDeath: (error) => (death ??= error),
  });
  /** Resolves when each worker has been granted a lease since the time that `since` returns for it. */
  const grants = async (since) => {
    const deadline = now() + PATIENCE * limit;
    const waiting = () => fleet.workers.some(({ id, grantedAt }) => grantedAt < since(id));
    while (waiting() && now() < deadline) {
      signal.throwIfAborted();
      if (death) throw death;
      await delay(POLL);
    }
  };

  try {
    await fleet.start();
    const started = now();
    fleet.record({ type: 'began', at: started });
    await grants(() => started);
    let injected = 0;
    for (const { faults, quiet } of schedule({ seed, server, workers: names, sessionTimeout })) {
      for (let attempt = 1; ; attempt++) {
        const from = now();
        const waited = fleet.measureWaiting();
        await delay(quiet);
        const disturbed = waited() > DISTURBED * quiet;
        fleet.record({ type: 'quiet', from, until: now(), disturbed });
        if (!disturbed || attempt === QUIETS) break;
      }
      onProgress({ elapsed: now() - started, injected });
      if (death) throw death;
      signal.throwIfAborted();
      if (now() - started >= milliseconds) break;
      const records = await Promise.all(faults.map((fault) => inject(fault, { fleet, servers })));
      injected += records.length;
      const healed = Object.fromEntries(
        names.map((name) => [
          name,
          Math.max(
            ...records
              .filter(({ worker }) => worker === undefined || worker === name)
              .map((record) => record.healed),
          ),
        ]),
      );
      const waited = fleet.measureWaiting();
      await grants((name) => healed[name]);
      fleet.record({ type: 'round', healed, waited: waited() });
      const over = Math.max(...records.map(({ until }) => until));
      // A worker may recover before the last server is back.
      await grants(() => over);
    }
    await Promise.all(fleet.workers.map((worker) => worker.ask('finish')));
    const orphans = await leftOver(servers.ports, sessionTimeout, limit);
    fleet.record({ type: 'ended', orphans, at: now() });
  } finally {
    await fleet.stop();
    await servers.stop();
  }
}

/** Resolves with the ephemeral znodes that remain after all workers have finished and dead sessions have expired. */
async function leftOver(ports, sessionTimeout, limit) {
  const connectString = ports.map((port) => `127.0.0.1:${port}`).join();
  const client = new ZkClient({ connectString, sessionTimeout });
  await client.connect();
  try {
    const deadline = now() + limit;
    for (;;) {
      const orphans = await ephemeralsUnder(client, ROOT);
      if (orphans.length === 0 || now() > deadline) return orphans;
      await delay(POLL);
    }
  } finally {
    await client.close();
  }
}

async function ephemeralsUnder(client, path) {
  const { children } = await client.children(path).catch(() => ({ children: [] }));
  const found = await Promise.all(
    children.map(async (name) => {
      const child = `${path}/${name}`;
      const stat = await client.exists(child);
      if (!stat) return [];
      return stat.ephemeralOwner === '0' ? ephemeralsUnder(client, child) : [child];
    }),
  );
  return found.flat();
}
