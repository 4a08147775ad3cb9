import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { freePorts, RealServer } from './real-server.mjs';

/** Milliseconds between two polls of the servers' modes. */
const POLL = 25;
/** Milliseconds until an ensemble without a leader is reported as an error. */
const QUORUM_LIMIT = 60_000;

/** Three servers of Apache ZooKeeper on this machine, each of which can be stopped, killed and paused. */
export class Ensemble {
  /** In the order of their ids. */
  readonly nodes: RealServer[] = [];

  private constructor(private readonly directory: string) {}

  /** @param options `tickTime` in milliseconds; `nodes` is the number of servers */
  static async start({ tickTime, nodes: size = 3 }: { tickTime: number; nodes?: number }) {
    const directory = await mkdtemp(join(tmpdir(), 'ensemble-'));
    const ensemble = new Ensemble(directory);
    const ports = await freePorts(3 * size);
    const clientPorts = ports.splice(0, size);
    const members = clientPorts.map(
      (_, index) => `server.${index + 1}=127.0.0.1:${ports[2 * index]}:${ports[2 * index + 1]}`,
    );
    // Ten ticks to connect to a new leader; a follower that is four ticks behind is dropped.
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

  get ports(): number[] {
    return this.nodes.map(({ port }) => port);
  }

  /** Resolves with the leader; with undefined where there is no majority. */
  async leader(): Promise<RealServer | undefined> {
    const [leader] = await this.#inMode('leader');
    return leader;
  }

  followers(): Promise<RealServer[]> {
    return this.#inMode('follower');
  }

  /** Resolves once `count` servers serve, one of them as the leader; by default a majority. */
  async quorum(count = Math.floor(this.nodes.length / 2) + 1): Promise<void> {
    const deadline = performance.now() + QUORUM_LIMIT;
    for (;;) {
      const modes = await this.#modes();
      if (modes.includes('leader') && modes.filter(Boolean).length >= count) return;
      if (performance.now() > deadline) {
        const limit = `${QUORUM_LIMIT / 1000} s`;
        throw new Error(`after ${limit} fewer than ${count} servers serve; their modes: ${modes}`);
      }
      await delay(POLL);
    }
  }

  async stop(): Promise<void> {
    await Promise.all(this.nodes.map((node) => node.stop()));
    await rm(this.directory, { recursive: true, force: true });
  }

  async #inMode(mode: string): Promise<RealServer[]> {
    const modes = await this.#modes();
    return this.nodes.filter((_, index) => modes[index] === mode);
  }

  #modes(): Promise<(string | undefined)[]> {
    return Promise.all(this.nodes.map((node) => node.mode()));
  }
}
