import { appendFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Child } from '../faults/child.js';
import { now } from '../faults/clock.js';
import { Link } from '../faults/link.mjs';
import { waitedForProcessor } from '../faults/processor.mjs';

const PROGRAM = fileURLToPath(new URL('worker.mjs', import.meta.url));

/** The workers, their links to each server, and the store that they write to. */
export class Fleet {
  #workers = new Map();
  #options;
  #highest = new Map();

  /** @param options `{ names, ports, directory, sessionTimeout, transport, seed, onDeath }` */
  constructor(options) {
    this.#options = options;
  }

  async start() {
    await Promise.all(this.#options.names.map((name) => this.#add(name)));
  }

  worker(name) {
    return this.#workers.get(name);
  }

  get workers() {
    return [...this.#workers.values()];
  }

  /** Returns a function that returns the longest time in milliseconds that a process has waited for a processor since. */
  measureWaiting() {
    const pids = [process.pid, ...this.workers.map(({ pid }) => pid)];
    const before = pids.map((pid) => waitedForProcessor([pid]));
    return () => Math.max(...pids.map((pid, index) => waitedForProcessor([pid]) - before[index]));
  }

  async kill(name) {
    const worker = this.worker(name);
    await worker.kill();
    this.record({ type: 'exited', worker: name, life: worker.life, at: now() });
  }

  /** Replaces a killed process. Resolves when the new one runs. */
  async replace(name) {
    const { life, links } = this.worker(name);
    await this.#add(name, life + 1, links);
  }

  /** Records an event of this process. */
  record(event) {
    appendFileSync(join(this.#options.directory, 'nemesis.jsonl'), `${JSON.stringify(event)}\n`);
  }

  async stop() {
    await Promise.all(this.workers.map((worker) => worker.kill()));
    for (const { links } of this.workers) for (const link of links) link.close();
  }

  /** @param {Link[]} [present] */
  async #add(name, life = 1, present) {
    const { ports, directory, sessionTimeout, transport, seed, names, onDeath } = this.#options;
    const links = present ?? (await Promise.all(ports.map((port) => Link.to(port))));
    const worker = new Worker(name, PROGRAM, [
      JSON.stringify({
        connectString: links.map(({ connectString }) => connectString).join(),
        sessionTimeout,
        transport,
        worker: name,
        life,
        file: join(directory, `${name}-${life}.jsonl`),
        seed: seed + 1_000 * names.indexOf(name) + life,
      }),
    ]);
    Object.assign(worker, { life, links });
    /** @type {Promise<void>} */
    const ready = new Promise((resolve) => {
      worker.onMessage = (message) => {
        if (message.type === 'ready') resolve();
        else if (message.type === 'granted') worker.grantedAt = now();
        else this.#store(name, message);
      };
    });
    this.#workers.set(name, worker);
    void worker.exited.then(() => {
      if (!worker.killed) onDeath(new Error(`${name} exited unexpectedly`));
    });
    await ready;
  }

  /**
   * The check that protects a store from a holder whose lease is over.
   *
   * @param {string} worker
   * @param {import('../faults/child.js').ChildMessage} message
   */
  #store(worker, { id, key, token }) {
    const accepted = token >= (this.#highest.get(key) ?? -1n);
    if (accepted) this.#highest.set(key, token);
    this.record({ type: 'stored', worker, id, key, token: String(token), accepted, at: now() });
  }
}

class Worker extends Child {
  life;
  /** One link for each server. */
  links;
  /** The time at which this process learned of the latest grant. */
  grantedAt = -Infinity;
}
