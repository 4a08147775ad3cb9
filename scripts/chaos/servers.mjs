import { setTimeout as delay } from 'node:timers/promises';
import { EmbeddedZooKeeper } from 'nestjs-zookeeper/embedded';
import { now } from '../faults/clock.js';
import { Ensemble } from '../faults/ensemble.js';

/**
 * Starts the servers of a run: `ports`, `anyPort()` of one that serves, `faults`, and `stop()`. A fault resolves
 * when it is over, with the time since which a majority serves.
 */
export function startServers(kind, { tickTime }) {
  return kind === 'ensemble' ? startEnsemble(tickTime) : startEmbedded(tickTime);
}

async function startEmbedded(tickTime) {
  const server = await EmbeddedZooKeeper.start({ tickTime, containerCheckInterval: tickTime });
  return {
    ports: [server.port],
    anyPort: async () => server.port,
    faults: {
      async restart(duration) {
        await server.stop();
        await delay(duration);
        await server.restart();
        return now();
      },
    },
    stop: () => server.stop(),
  };
}

async function startEnsemble(tickTime) {
  const ensemble = await Ensemble.start({ tickTime });
  const all = ensemble.nodes.length;

  /** Stops nodes and starts them after `duration`, but not before the others form a majority, if they can. */
  const without = async (nodes, duration, { stop, start }) => {
    const out = nodes.filter(Boolean);
    const from = now();
    await Promise.all(out.map(stop));
    const isMajorityLeft = 2 * (all - out.length) > all;
    const quorum = isMajorityLeft ? ensemble.quorum().then(now) : undefined;
    await delay(duration - (now() - from));
    let healed = await quorum;
    for (const node of out) start(node);
    if (!isMajorityLeft) {
      await ensemble.quorum();
      healed = now();
    }
    await ensemble.quorum(all);
    return healed;
  };
  const killing = { stop: (node) => node.stop(), start: (node) => node.launch() };
  const pausing = { stop: (node) => node.pause(), start: (node) => node.resume() };
  const restarting = { stop: (node) => node.stop('SIGTERM'), start: (node) => node.launch() };
  const leader = async () => [await ensemble.leader()];
  const follower = async () => (await ensemble.followers()).slice(0, 1);

  return {
    ports: ensemble.ports,
    anyPort: async () => ((await ensemble.leader()) ?? ensemble.nodes[0]).port,
    faults: {
      'kill-leader': async (duration) => without(await leader(), duration, killing),
      'kill-follower': async (duration) => without(await follower(), duration, killing),
      'pause-leader': async (duration) => without(await leader(), duration, pausing),
      'pause-follower': async (duration) => without(await follower(), duration, pausing),
      'restart-leader': async (duration) => without(await leader(), duration, restarting),
      'no-quorum': async (duration) => without(ensemble.nodes.slice(1), duration, killing),
    },
    stop: () => ensemble.stop(),
  };
}
