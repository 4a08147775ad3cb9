import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { EmbeddedZooKeeper } from 'nestjs-zookeeper/embedded';
import { freePorts, RealServer } from './real-server.mjs';

/** Starts the embedded server, or Apache ZooKeeper from Debian's jars. Resolves with its `port`, `pid` and `stop()`. */
export function startServer(kind, { tickTime, signal }) {
  return kind === 'real' ? startReal(tickTime, signal) : startEmbedded(tickTime);
}

async function startEmbedded(tickTime) {
  const server = await EmbeddedZooKeeper.start({ tickTime, containerCheckInterval: tickTime });
  return { port: server.port, pid: process.pid, stop: () => server.stop() };
}

async function startReal(tickTime, signal) {
  const directory = await mkdtemp(join(tmpdir(), 'failover-'));
  const [port] = await freePorts(1);
  const server = await RealServer.in(directory, port, [`tickTime=${tickTime}`]);
  const stop = async () => {
    await server.stop();
    await rm(directory, { recursive: true, force: true });
  };
  try {
    server.launch();
    await server.serving(signal);
  } catch (error) {
    await stop();
    throw error;
  }
  return { port, pid: server.pid, stop };
}
