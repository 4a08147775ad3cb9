import { fileURLToPath } from 'node:url';
import { Child } from '../faults/child.mjs';
import { now } from '../faults/clock.mjs';
import { Link } from '../faults/link.mjs';

const PROGRAM = fileURLToPath(new URL('instance.mjs', import.meta.url));
const INSTANCES = 3;
const PATH = '/failover';
/** Milliseconds: what has not come by then never will. */
const PATIENCE = 60_000;
/** Milliseconds between two looks, where no news comes before. */
const POLL = 10;

/** The instances, what happened to them, and the store that their leader writes to. */
export class Fleet {
  /** In the order in which this process heard of it; the times are those of whoever it happened to. */
  history = [];
  #instances = new Set();
  #count = 0;
  #highest = -1n;
  #news = new Set();
  #died;

  constructor(server, { latency, sessionTimeout, signal }) {
    this.server = server;
    this.latency = latency;
    this.sessionTimeout = sessionTimeout;
    this.signal = signal;
  }

  async start() {
    for (let index = 0; index < INSTANCES; index++) await this.add();
  }

  /** A new process, which connects and takes part by itself. */
  async add() {
    const id = `instance-${++this.#count}`;
    const link = await Link.to(this.server.port, { latency: this.latency });
    const instance = new Instance(id, link, [link.connectString, this.sessionTimeout, PATH, id]);
    this.#instances.add(instance);
    instance.onNews = (message) => this.#take(instance, message);
    void instance.exited.then(() => {
      this.#instances.delete(instance);
      link.close();
      if (!instance.killed) this.#died = new Error(`${id} died by itself`);
      this.record({ type: 'exited', instance: id });
    });
  }

  /** Once all take part and wait for nothing: the leader. */
  async settled() {
    await this.until('one leads and all take part', () => this.#allTakePart());
    // Whose create was answered has its watch: it asked for that before.
    await Promise.all([...this.#instances].map((instance) => instance.ask('measure')));
    return [...this.#instances].find(({ token }) => token !== undefined);
  }

  /** Notes what is about to be done to `leader`. Its `succeeded()` resolves when somebody has begun to lead after that. */
  fault(kind, { id, token }) {
    const start = this.history.length;
    const event = { type: 'fault', kind, instance: id, token };
    this.record(event);
    const hasSucceeded = () => this.history.slice(start).some(({ type }) => type === 'elected');
    return { event, succeeded: () => this.until('the next leads', hasSucceeded) };
  }

  /** Of all processes that have a part in it. */
  get pids() {
    const instances = [...this.#instances].map(({ pid }) => pid);
    return [...new Set([process.pid, this.server.pid, ...instances])];
  }

  record(event) {
    event.at = now();
    this.#add(event);
  }

  async stop() {
    await Promise.all([...this.#instances].map((instance) => instance.kill()));
  }

  async until(what, condition) {
    const deadline = now() + PATIENCE;
    while (!(await condition())) {
      this.signal.throwIfAborted();
      if (this.#died) throw this.#died;
      if (now() > deadline) throw new Error(`waited ${PATIENCE / 1000} s until ${what}`);
      await this.#newsWithin(POLL);
    }
  }

  async #allTakePart() {
    const instances = [...this.#instances];
    const [leader, another] = instances.filter(({ token }) => token !== undefined);
    if (instances.length !== INSTANCES || !leader || another) return false;
    const names = await leader.ask('participants').catch(() => []);
    return names.length === INSTANCES && instances.every(({ id }) => names.includes(id));
  }

  #take(instance, { type, token, at }) {
    if (type === 'write') {
      // What every store that a leader writes to should do.
      const accepted = token >= this.#highest;
      if (accepted) this.#highest = token;
      this.record({ type, instance: instance.id, token, accepted });
    } else {
      instance.token = type === 'elected' ? token : undefined;
      this.#add({ type, instance: instance.id, token, at });
    }
  }

  #add(event) {
    this.history.push(event);
    for (const wake of this.#news) wake();
  }

  #newsWithin(milliseconds) {
    return new Promise((resolve) => {
      const wake = () => {
        clearTimeout(timer);
        this.#news.delete(wake);
        resolve();
      };
      const timer = setTimeout(wake, milliseconds);
      this.#news.add(wake);
    });
  }
}

/** A process of instance.mjs. */
class Instance extends Child {
  /** Of its present term. */
  token;

  constructor(id, link, args) {
    super(id, PROGRAM, args);
    this.link = link;
  }
}
