import { execFileSync } from 'node:child_process';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ZkClient } from 'nestjs-zookeeper/recipes';
import { CURATOR_JARS, missingJars } from '../faults/jars.mjs';
import { hasReal } from '../faults/real-server.mjs';
import { pythonWithKazoo, runs } from '../programs.mjs';
import { OURS, OURS_NATIVE, RAW_WIRE } from './limits.mjs';
import { Peer } from './peer.mjs';
import { startEmbedded, startRedis, startZooKeeper } from './servers.mjs';

const WORKERS = fileURLToPath(new URL('workers/', import.meta.url));
/** Java and Python sources, which the build does not copy. */
const SOURCES = fileURLToPath(new URL('../../scripts/bench/workers/', import.meta.url));

const withZooKeeper = hasReal();
const withNative = await loads('zookeeper');
const python = pythonWithKazoo();

const SERVERS = { zookeeper: startZooKeeper, embedded: startEmbedded, redis: startRedis };

/**
 * For each system: its server, the command of its process, the system whose process probes its locks
 * (by default its own, false for none), and the reason why it cannot run here, if there is one.
 */
const SYSTEMS = {
  [OURS]: ours('zookeeper', 'wire'),
  [OURS_NATIVE]: ours('zookeeper', 'native'),
  'ours (embedded)': ours('embedded', 'wire'),
  curator: {
    server: 'zookeeper',
    // Curator and this library use the same znodes.
    prober: OURS,
    missing: missingCurator(),
    command: (address, classes) => [
      'java',
      ...['-Xmx1g', '-cp', [classes, ...CURATOR_JARS].join(':'), 'CuratorBench', address],
    ],
  },
  kazoo: {
    server: 'zookeeper',
    missing: withZooKeeper ? !python && 'no Python 3 that has kazoo' : 'no ZooKeeper',
    command: (address) => [python, join(SOURCES, 'kazoo_bench.py'), address],
  },
  redlock: {
    server: 'redis',
    missing: await missingRedlock(),
    command: (address) => node('redlock.mjs', address.split(':')[1]),
  },
  raw: {
    server: 'zookeeper',
    // It excludes no other caller.
    prober: false,
    missing: withZooKeeper ? !withNative && 'no package zookeeper' : 'no ZooKeeper',
    command: (address) => node('raw.mjs', address),
  },
  [RAW_WIRE]: {
    server: 'zookeeper',
    prober: false,
    missing: !withZooKeeper && 'no ZooKeeper',
    command: (address) => node('raw-wire.mjs', address),
  },
};

/** The servers and processes of one run. Each starts when it is first needed. */
export class Systems {
  #servers = new Map();
  #peers = new Map();
  #clients = new Map();
  #running = new Set();
  #classes;

  /** @param count the number of ZooKeeper servers */
  constructor(signal, count) {
    this.signal = signal;
    this.count = count;
  }

  /** Adds this library on another runtime. */
  static addRuntime({ system, program }) {
    SYSTEMS[system] = {
      ...SYSTEMS[OURS],
      prober: OURS,
      command: (address) => [program, join(WORKERS, 'ours.mjs'), 'wire', address],
    };
  }

  /** Returns the reason why a system cannot run here; undefined if it can. */
  static missing(system) {
    return SYSTEMS[system].missing || undefined;
  }

  /** Resolves with a process of the system, the same one for the same `role`. */
  peer(system, role) {
    const id = idOf({ system, role });
    if (!this.#peers.has(id)) this.#peers.set(id, this.#start(system, role));
    return this.#peers.get(id);
  }

  /** Resolves with a process that can request the same locks; undefined if the system has none. */
  async prober(system) {
    const { prober = system } = SYSTEMS[system];
    return prober ? this.peer(prober, 'prober') : undefined;
  }

  /** Creates the parents of the locks of `keys` keys, so that the measurement does not include it. */
  async prepare(system, path, keys) {
    const { server } = SYSTEMS[system];
    if (server === 'redis') return;
    const client = await this.#client(server);
    await client.ensureContainers(path);
    await Promise.all(Array.from({ length: keys }, (_, key) => client.create(`${path}/${key}`)));
  }

  /** Resolves with a new process for one measurement, of `program` or of the system's own program. */
  single(system, program) {
    return this.#start(system, 'single process', program);
  }

  async release(peer) {
    this.#running.delete(peer);
    this.#peers.delete(idOf(peer));
    await peer.stop();
  }

  /** Stops all processes of the system. */
  async releaseAll(system) {
    const ofSystem = [...this.#running].filter((peer) => peer.system === system);
    await Promise.all(ofSystem.map((peer) => this.release(peer)));
  }

  async stop() {
    await Promise.all([...this.#running].map((peer) => peer.stop()));
    const clients = await Promise.allSettled(this.#clients.values());
    for (const client of clients) if (client.status === 'fulfilled') await client.value.close();
    // Includes servers that are still starting.
    const servers = await Promise.allSettled(this.#servers.values());
    for (const server of servers) if (server.status === 'fulfilled') await server.value.stop();
    if (this.#classes) await rm(await this.#classes, { recursive: true, force: true });
  }

  async #start(system, role, program) {
    const { server, transport, command } = SYSTEMS[system];
    const address = await this.#address(server);
    const classes = system === 'curator' ? await (this.#classes ??= compile()) : undefined;
    this.signal.throwIfAborted();
    const peer = new Peer(
      system,
      role,
      program ? node(program, transport, address) : command(address, classes),
    );
    this.#running.add(peer);
    await peer.ready;
    return peer;
  }

  #client(server) {
    const connect = async () => {
      const client = new ZkClient({
        connectString: await this.#address(server),
      });
      await client.connect();
      return client;
    };
    if (!this.#clients.has(server)) this.#clients.set(server, connect());
    return this.#clients.get(server);
  }

  async #address(server) {
    this.signal.throwIfAborted();
    if (!this.#servers.has(server)) {
      this.#servers.set(server, SERVERS[server](this.signal, this.count));
    }
    return (await this.#servers.get(server)).address;
  }
}

function idOf({ system, role }) {
  return `${system}, ${role}`;
}

function ours(server, transport) {
  return {
    server,
    transport,
    missing:
      (server === 'zookeeper' && !withZooKeeper && 'no ZooKeeper') ||
      (transport === 'native' && !withNative && 'no package zookeeper'),
    command: (address) => node('ours.mjs', transport, address),
  };
}

function node(program, ...args) {
  return [process.execPath, '--expose-gc', join(WORKERS, program), ...args];
}

async function compile() {
  const classes = await mkdtemp(join(tmpdir(), 'bench-curator-'));
  const files = await readdir(SOURCES);
  const sources = files.filter((file) => file.endsWith('.java')).map((file) => join(SOURCES, file));
  execFileSync('javac', ['-cp', CURATOR_JARS.join(':'), '-d', classes, ...sources]);
  return classes;
}

function missingCurator() {
  if (!withZooKeeper) return 'no ZooKeeper';
  if (!runs('javac', '-version')) return 'no javac';
  const [jar] = missingJars(CURATOR_JARS);
  return jar && `no ${jar}`;
}

async function missingRedlock() {
  if (!runs('redis-server', '--version')) return 'no redis-server';
  for (const name of ['redlock', 'ioredis']) if (!(await loads(name))) return `no package ${name}`;
  return undefined;
}

async function loads(name) {
  try {
    await import(name);
    return true;
  } catch {
    return false;
  }
}
