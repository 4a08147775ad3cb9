import { setTimeout as delay } from 'node:timers/promises';
import { ZkClient } from 'nestjs-zookeeper/recipes';
import { now } from '../faults/clock.mjs';
import { Fleet } from './fleet.mjs';
import { recoveryLimit, ROOT } from './keys.mjs';
import { deal } from './nemesis.mjs';
import { schedule } from './schedule.mjs';
import { startServers } from './servers.mjs';

/** Milliseconds between two looks at something that has no event here. */
const LOOK = 20;
/** Of the recovery limit: how long a worker that has not recovered is waited for. The checker tells. */
const PATIENCE = 3;

/**
 * How many times the quiet between two rounds is tried while the machine is busy with others:
 * while a process waits for a processor for longer than this part of it.
 */
const QUIETS = 3;
const DISTURBED = 0.5;

/** Brings the faults about until the time is up; all that happens is in the files of `directory` then. */
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
  /** A grant of every worker that was told of after its moment. */
  const grants = async (since) => {
    const deadline = now() + PATIENCE * limit;
    const waiting = () => fleet.workers.some(({ id, grantedAt }) => grantedAt < since(id));
    while (waiting() && now() < deadline) {
      signal.throwIfAborted();
      if (death) throw death;
      await delay(LOOK);
    }
  };

  try {
    await fleet.start();
    const started = now();
    fleet.record({ type: 'began', at: started });
    await grants(() => started);
    let dealt = 0;
    for (const { faults, quiet } of schedule({ seed, server, workers: names, sessionTimeout })) {
      for (let attempt = 1; ; attempt++) {
        const from = now();
        const waited = fleet.startWaiting();
        await delay(quiet);
        const disturbed = waited() > DISTURBED * quiet;
        fleet.record({ type: 'quiet', from, until: now(), disturbed });
        if (!disturbed || attempt === QUIETS) break;
      }
      onProgress({ elapsed: now() - started, dealt });
      if (death) throw death;
      signal.throwIfAborted();
      if (now() - started >= milliseconds) break;
      const records = await Promise.all(faults.map((fault) => deal(fault, { fleet, servers })));
      dealt += records.length;
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
      const waited = fleet.startWaiting();
      await grants((name) => healed[name]);
      fleet.record({ type: 'round', healed, waited: waited() });
      const over = Math.max(...records.map(({ until }) => until));
      // A worker may work again while the last server is still on its way back.
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

/** Ephemeral znodes that stay though nobody holds or waits, and all sessions that ended have timed out. */
async function leftOver(ports, sessionTimeout, limit) {
  const connectString = ports.map((port) => `127.0.0.1:${port}`).join();
  const client = new ZkClient({ connectString, sessionTimeout });
  await client.connect();
  try {
    const deadline = now() + limit;
    for (;;) {
      const orphans = await ephemeralsUnder(client, ROOT);
      if (orphans.length === 0 || now() > deadline) return orphans;
      await delay(LOOK);
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
