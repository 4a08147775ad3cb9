import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { TestProject } from 'vitest/node';
import { RealZooKeeper } from './real-zookeeper.js';

declare module 'vitest' {
  export interface ProvidedContext {
    /**
     * URL at which a test file gets the port of its worker's real server: `GET <url>/<worker id>`.
     */
    sharedServers: string;
  }
}

const URL_OF_FIRST_SETUP = 'ZK_SHARED_SERVERS';

/**
 * Global setup of the projects on a real ZooKeeper. A JVM takes a second to start, so files share them: one server
 * for each worker, started when a file first asks for it. Files of one worker run one after the other, so a file
 * has its server to itself while it runs.
 */
export default async function setup(project: TestProject): Promise<(() => Promise<void>) | void> {
  // All projects of a run share the servers of the first one. Vitest ends the setups together.
  const running = process.env[URL_OF_FIRST_SETUP];
  if (running) return void project.provide('sharedServers', running);

  const servers = new Map<string, Promise<RealZooKeeper>>();
  const registry = createServer((request, response) => {
    const worker = request.url!.slice(1);
    const server = servers.get(worker) ?? RealZooKeeper.start();
    servers.set(worker, server);
    server.then(
      ({ port }) => response.end(String(port)),
      (error: unknown) => response.writeHead(500).end(String(error)),
    );
  }).listen(0, '127.0.0.1');
  await once(registry, 'listening');
  const url = `http://127.0.0.1:${(registry.address() as AddressInfo).port}`;
  process.env[URL_OF_FIRST_SETUP] = url;
  project.provide('sharedServers', url);

  return async () => {
    delete process.env[URL_OF_FIRST_SETUP];
    registry.closeAllConnections();
    registry.close();
    for (const server of servers.values()) await (await server).dispose();
  };
}

/** Returns the port of the real server of this worker. */
export async function portOfSharedServer(url: string): Promise<number> {
  const response = await fetch(`${url}/${process.env.VITEST_POOL_ID}`);
  const answer = await response.text();
  if (!response.ok) throw new Error(answer);
  return Number(answer);
}
