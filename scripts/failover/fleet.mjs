import { fileURLToPath } from 'node:url';
import { Child } from '../faults/child.js';
import { now } from '../faults/clock.js';
import { Link } from '../faults/link.mjs';

const PROGRAM = fileURLToPath(new URL('instance.mjs', import.meta.url));
const INSTANCES = 3;
const PATH = '/failover';
/** Milliseconds until a condition that is still false becomes an error. */
const WAIT_LIMIT = 60_000;
/** Milliseconds between two checks of a condition if no message arrives before. */
const POLL = 10;

/** The instances, the history of their election, and the store that the leader writes to. */
export class Fleet {
  /** In the order in which this process received the events; each has the time of its own process. */
  history = [];
  #instances = new Set();
  #count = 0;
  #highest = -1n;
  #listeners = new Set();
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

  /** Starts an instance, which connects and joins the election by itself. */
  async add() {
    const id = `instance-${++this.#count}`;
    const link = await Link.to(this.server.port, { latency: this.latency });
    const instance = new Instance(id, link, [link.connectString, this.sessionTimeout, PATH, id]);
    this.#instances.add(instance);
    instance.onMessage = (message) => this.#receive(instance, message);
    void instance.exited.then(() => {
      this.#instances.delete(instance);
      link.close();
      if (!instance.killed) this.#died = new Error(`${id} exited unexpectedly`);
      this.record({ type: 'exited', instance: id });
    });
  }

  /** Resolves with the leader once all instances take part and none is about to change anything. */
  async settled() {
    await this.until('one instance leads and all take part', () => this.#allTakePart());
    // Requests are answered in order: after its create, an instance has its watch.
    await Promise.all([...this.#instances].map((instance) => instance.ask('measure')));
    return [...this.#instances].find(({ token }) => token !== undefined);
  }

  /** Records a fault before it is injected. `succeeded()` resolves when the next leader has been elected. */
  fault(kind, { id, token }) {
    const start = this.history.length;
    const event = { type: 'fault', kind, instance: id, token };
    this.record(event);
    const hasSucceeded = () => this.history.slice(start).some(({ type }) => type === 'elected');
    return { event, succeeded: () => this.until('the next leader is elected', hasSucceeded) };
  }

  /** The ids of all processes of the run. */
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
    const deadline = now() + WAIT_LIMIT;
    while (!(await condition())) {
      this.signal.throwIfAborted();
      if (this.#died) throw this.#died;
      if (now() > deadline) throw new Error(`waited ${WAIT_LIMIT / 1000} s in vain until ${what}`);
      await this.#messageWithin(POLL);
    }
  }

  async #allTakePart() {
    const instances = [...this.#instances];
    const [leader, another] = instances.filter(({ token }) => token !== undefined);
    if (instances.length !== INSTANCES || !leader || another) return false;
    const names = await leader.ask('participants').catch(() => []);
    return names.length === INSTANCES && instances.every(({ id }) => names.includes(id));
  }

  /**
   * @param {Instance} instance
   * @param {import('../faults/child.js').ChildMessage} message
   */
  #receive(instance, { type, token, at }) {
    if (type === 'write') {
      // The check that protects a store from a leader whose term is over.
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
    for (const wake of this.#listeners) wake();
  }

  #messageWithin(milliseconds) {
    /** @type {Promise<void>} */
    const message = new Promise((resolve) => {
      const wake = () => {
        clearTimeout(timer);
        this.#listeners.delete(wake);
        resolve();
      };
      const timer = setTimeout(wake, milliseconds);
      this.#listeners.add(wake);
    });
    return message;
  }
}

/** A process of instance.mjs. */
class Instance extends Child {
  /** The fencing token of its present term. */
  token;

  constructor(id, link, args) {
    super(id, PROGRAM, args);
    this.link = link;
  }
}
