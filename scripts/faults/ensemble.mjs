import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { freePorts, RealServer } from './real-server.mjs';

/** Milliseconds between two looks at who leads. */
const LOOK = 25;
/** Milliseconds: a majority that has not found itself by then never will. */
const PATIENCE = 60_000;

/** Three servers of Apache ZooKeeper on this machine, each of which can be stopped, killed and paused. */
export class Ensemble {
  /** In the order of their ids. */
  nodes = [];
  #directory;

  static async start({ tickTime, nodes: size = 3 }) {
    const ensemble = new Ensemble();
    const directory = await mkdtemp(join(tmpdir(), 'ensemble-'));
    ensemble.#directory = directory;
    const ports = await freePorts(3 * size);
    const clientPorts = ports.splice(0, size);
    const members = clientPorts.map(
      (_, index) => `server.${index + 1}=127.0.0.1:${ports[2 * index]}:${ports[2 * index + 1]}`,
    );
    // Ten ticks to connect to a new leader, four until one that is behind is given up.
    const configuration = [`tickTime=${tickTime}`, 'initLimit=10', 'syncLimit=4', ...members];
    for (const [index, port] of clientPorts.entries()) {
      const home = join(directory, String(index + 1));
      await mkdir(join(home, 'data'), { recursive: true });
      await writeFile(join(home, 'data', 'myid'), String(index + 1));
      ensemble.nodes.push(await RealServer.in(home, port, configuration));
    }
    for (const node of ensemble.nodes) node.launch();
    try {
      await ensemble.quorum(size);
    } catch (error) {
      await ensemble.stop();
      throw error;
    }
    return ensemble;
  }

  get ports() {
    return this.nodes.map(({ port }) => port);
  }

  /** The one that leads; undefined where there is no majority. */
  async leader() {
    return this.#inMode('leader').then(([leader]) => leader);
  }

  followers() {
    return this.#inMode('follower');
  }

  /** Resolves once so many serve, one of which leads; by default a majority. */
  async quorum(count = Math.floor(this.nodes.length / 2) + 1) {
    const deadline = performance.now() + PATIENCE;
    for (;;) {
      const modes = await this.#modes();
      if (modes.includes('leader') && modes.filter(Boolean).length >= count) return;
      if (performance.now() > deadline) {
        throw new Error(`waited ${PATIENCE / 1000} s until ${count} servers serve: ${modes}`);
      }
      await delay(LOOK);
    }
  }

  async stop() {
    await Promise.all(this.nodes.map((node) => node.stop()));
    await rm(this.#directory, { recursive: true, force: true });
  }

  async #inMode(mode) {
    const modes = await this.#modes();
    return this.nodes.filter((_, index) => modes[index] === mode);
  }

  #modes() {
    return Promise.all(this.nodes.map((node) => node.mode()));
  }
}
