import { PassThrough } from 'node:stream';
import type { SimulatedProcess, World } from 'nestjs-zookeeper/testing';
import { type Session, ZkClient, type ZkClientOptions } from '../../lib/client/index.js';
import { connectWire } from '../../lib/client/transport/wire-transport.js';
import type { Ensemble } from '../../lib/zk.ensemble.js';
import type { LinkOptions, TestLink, TestServer } from './servers.js';
import { currentWorld, testProcess } from './virtual-time.js';

/** The processes behind the links of each simulation, by the connect strings of the links. */
const links = new WeakMap<World, Map<string, SimulatedProcess>>();

function linksOf(world: World) {
  const found = links.get(world) ?? new Map<string, SimulatedProcess>();
  links.set(world, found);
  return found;
}

const refuse = connectWire(({ ip, port }) => {
  return new PassThrough().destroy(new Error(`connect ECONNREFUSED ${ip}:${port}`));
});

/**
 * Returns the servers at an address: the simulated server, also through a link. No server listens at any other address.
 *
 * @param process the process that connects without a link
 */
export function ensembleAt(connectString: string, process = testProcess()): Ensemble {
  const world = currentWorld();
  const [address, ...chroot] = connectString.split(/(?=\/)/);
  const isServer = address === world.servers[0]!.address;
  const ensemble = (isServer ? process : linksOf(world).get(address!))?.ensemble;
  if (!ensemble) return { connectString, connect: refuse };
  return { ...ensemble, connectString: ensemble.connectString + chroot.join('') };
}

/** The server in the simulation of the running test. */
export class SimulatedTestServer implements TestServer {
  readonly kind = 'simulated';
  readonly pid = undefined;
  #paths = 0;

  get port(): never {
    throw new Error(
      'a simulated server has no port: a test that needs one belongs in test/sockets',
    );
  }

  get connectString(): string {
    return this.#server.address;
  }

  get #server() {
    return currentWorld().servers[0]!;
  }

  async stop() {
    this.#server.crash();
  }

  async start() {
    this.#server.restart();
  }

  async restart() {
    this.#server.crash();
    this.#server.restart();
  }

  path(name: string) {
    return `/test-${++this.#paths}-${name}`;
  }

  async watchCount() {
    return currentWorld().watchCount;
  }

  newClient({ connectString = this.connectString, ...options }: Partial<ZkClientOptions> = {}) {
    const ensemble = ensembleAt(connectString);
    const { connect } = ensemble;
    return new ZkClient({ ...options, connectString: ensemble.connectString }, connect);
  }

  async newLink(options?: LinkOptions) {
    return new SimulatedLink(options);
  }

  async expire(session: Session) {
    currentWorld().expireSession(session.id);
  }
}

/** The link of a process of its own, which has nothing but the connections of one client. */
class SimulatedLink implements TestLink {
  readonly connectString: string;
  readonly process: SimulatedProcess;
  #resumeAll: (() => void) | undefined;
  #resumeReplies: (() => void) | undefined;
  #accept: (() => void) | undefined;

  constructor({ latency }: LinkOptions = {}) {
    const all = linksOf(currentWorld());
    this.connectString = `link-${all.size + 1}`;
    this.process = currentWorld().process(this.connectString);
    if (latency !== undefined) this.process.link.latency = [latency, latency];
    all.set(this.connectString, this.process);
  }

  async cut() {
    this.process.link.reset();
    this.#resumeReplies = void this.#resumeReplies?.();
  }

  async down() {
    this.#accept ??= this.process.link.refuseConnections();
    await this.cut();
  }

  async up() {
    this.#accept = void this.#accept?.();
  }

  async holdAll() {
    this.#resumeAll ??= this.process.link.cut('both');
  }

  async holdReplies() {
    this.#resumeReplies ??= this.process.link.cut('replies');
  }

  async resume() {
    this.#resumeAll = void this.#resumeAll?.();
    this.#resumeReplies = void this.#resumeReplies?.();
  }

  async accepted(): Promise<number> {
    throw new Error('a simulated link does not count its connections');
  }

  async [Symbol.asyncDispose]() {}
}
