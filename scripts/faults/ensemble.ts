import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Link } from './link.mjs';
import { freePorts, RealServer } from './real-server.mjs';

/** Milliseconds between two polls of the servers' modes. */
const POLL = 25;
/** Milliseconds until an ensemble without a leader is reported as an error. */
const QUORUM_LIMIT = 60_000;

interface EnsembleOptions {
  readonly tickTime: number;
  readonly nodes?: number;
  readonly syncLimit?: number;
  readonly linked?: boolean;
}

/** Three servers of Apache ZooKeeper on this machine, each of which can be stopped, killed and paused. */
export class Ensemble {
  /** In the order of their ids. */
  readonly nodes: RealServer[] = [];

  /** The links between each two servers, if there are links: for the requests of followers, and for elections. */
  readonly #links: {
    readonly ends: readonly [number, number];
    readonly quorum: Link;
    readonly election: Link;
  }[] = [];

  private constructor(private readonly directory: string) {}

  /**
   * @param options `tickTime` in milliseconds; `nodes` is the number of servers; `syncLimit` the number of ticks after
   *   which a follower without contact to the leader stops; with `linked`, `isolate()` can cut a server off
   */
  static async start({
    tickTime,
    nodes: size = 3,
    syncLimit = 4,
    linked = false,
  }: EnsembleOptions) {
    const directory = await mkdtemp(join(tmpdir(), 'ensemble-'));
    const ensemble = new Ensemble(directory);
    const ports = await freePorts(3 * size);
    const clientPorts = ports.splice(0, size);
    for (const [index, port] of clientPorts.entries()) {
      const members = await Promise.all(
        clientPorts.map(async (_, other) => {
          const pair = ports.slice(2 * other, 2 * other + 2);
          const [quorum, election] = linked ? await ensemble.#link(index, other, pair) : pair;
          return `server.${other + 1}=127.0.0.1:${quorum}:${election}`;
        }),
      );
      // Ten ticks to connect to a new leader.
      const limits = ['initLimit=10', `syncLimit=${syncLimit}`];
      const configuration = [`tickTime=${tickTime}`, ...limits, ...members];
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

  /**
   * Cuts a server off from the other servers until {@link rejoin}; its clients still reach it. The servers notice it by the
   * silence of the others. Connections for an election are refused, so that the others elect a leader as early as possible.
   */
  async isolate(node: RealServer): Promise<void> {
    for (const { quorum } of this.#linksOf(node)) quorum.holdAll();
    await Promise.all(this.#linksOf(node).map(({ election }) => election.down()));
  }

  async rejoin(node: RealServer): Promise<void> {
    for (const { quorum } of this.#linksOf(node)) quorum.resume();
    await Promise.all(this.#linksOf(node).map(({ election }) => election.up()));
  }

  async stop(): Promise<void> {
    await Promise.all(this.nodes.map((node) => node.stop()));
    for (const { quorum, election } of this.#links)
      [quorum, election].forEach((link) => link.close());
    await rm(this.directory, { recursive: true, force: true });
  }

  /** Resolves with the ports at which one server reaches the ports of another one; a server reaches itself directly. */
  async #link(from: number, to: number, ports: readonly number[]): Promise<readonly number[]> {
    if (from === to) return ports;
    const [quorum, election] = await Promise.all([Link.to(ports[0]!), Link.to(ports[1]!)]);
    this.#links.push({ ends: [from, to], quorum, election });
    return [quorum.port, election.port];
  }

  #linksOf(node: RealServer) {
    const index = this.nodes.indexOf(node);
    return this.#links.filter(({ ends }) => ends.includes(index));
  }

  async #inMode(mode: string): Promise<RealServer[]> {
    const modes = await this.#modes();
    return this.nodes.filter((_, index) => modes[index] === mode);
  }

  #modes(): Promise<(string | undefined)[]> {
    return Promise.all(this.nodes.map((node) => node.mode()));
  }
}
