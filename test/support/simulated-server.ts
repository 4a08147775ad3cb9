import type { SimulatedProcess } from 'nestjs-zookeeper/testing';
import { type Session, ZkClient, type ZkClientOptions } from '../../lib/client/index.js';
import type { Ensemble } from '../../lib/zk.ensemble.js';
import type { LinkOptions, TestLink, TestServer } from './servers.js';
import { currentWorld, testProcess } from './virtual-time.js';

/** The links of the running test, by their connect strings. */
const links = new Map<string, SimulatedLink>();

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

  newClient({ connectString, ...options }: Partial<ZkClientOptions> = {}) {
    const [link, ...chroot] = (connectString ?? '').split(/(?=\/)/);
    const process = links.get(link!)?.process ?? testProcess();
    const ensemble = ensembleOf(process);
    const withChroot = ensemble.connectString + chroot.join('');
    return new ZkClient({ ...options, connectString: withChroot }, ensemble.connect);
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
  #cuts: (() => void)[] = [];
  #refusal: (() => void) | undefined;

  constructor({ latency }: LinkOptions = {}) {
    if (links.values().next().value?.process.ended) links.clear();
    this.connectString = `link-${links.size + 1}`;
    this.process = currentWorld().process(this.connectString);
    if (latency !== undefined) this.process.link.latency = [latency, latency];
    links.set(this.connectString, this);
  }

  async cut() {
    this.process.link.reset();
    await this.speak();
  }

  async down() {
    this.#refusal ??= this.process.link.refuseConnections();
    await this.cut();
  }

  async up() {
    this.#refusal?.();
    this.#refusal = undefined;
  }

  async silence() {
    this.#cuts.push(this.process.link.cut('both'));
  }

  async speak() {
    for (const heal of this.#cuts.splice(0)) heal();
  }

  async deafen() {
    this.#cuts.push(this.process.link.cut('replies'));
  }

  async mute() {
    this.#cuts.push(this.process.link.cut('requests'));
  }

  async dropReply() {
    await this.deafen();
    const { now } = currentWorld();
    // Until then the next request has arrived.
    currentWorld().at(now + 50, () => void this.cut());
  }

  async accepted(): Promise<number> {
    throw new Error('a simulated link does not count its connections');
  }

  async [Symbol.asyncDispose]() {}
}

/** Returns what `override()` of a process sets: the servers, and the function that connects to them. */
function ensembleOf(process: SimulatedProcess): Required<Ensemble> {
  let found: unknown;
  const builder = {
    overrideProvider: () => ({
      useValue(value: unknown) {
        found = value;
        return builder;
      },
    }),
  };
  process.override(builder);
  return found as Required<Ensemble>;
}
