import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { now } from './clock.js';

/** Characters of a process's error output that are kept for error messages. */
const LOG_LENGTH = 4_000;
/** Milliseconds after the end of a measurement within which its result must arrive. */
const RESULT_LIMIT = 120_000;

/**
 * A process that puts load on a lock on request. Each line is a message:
 *
 *   out  ready
 *   in   <id> <request> <name>=<value>...   answered by   <id> ok <JSON>   or   <id> error <text>
 *
 * The process exits when its input ends, so that none outlives the benchmark.
 */
export class Peer {
  #answers = new Map();
  #requests = 0;
  #log = '';
  #child;
  #dead;

  constructor(name, [program, ...args]) {
    this.name = name;
    this.#child = spawn(program, args, { stdio: ['pipe', 'pipe', 'pipe'] });
    this.ready = new Promise((resolve, reject) => this.#answers.set('ready', { resolve, reject }));
    this.ready.catch(() => {});
    createInterface(this.#child.stdout).on('line', (line) => this.#receive(line));
    this.#child.stdin.on('error', () => {});
    this.#child.stderr.on('data', (chunk) => {
      this.#log = (this.#log + chunk).slice(-LOG_LENGTH);
    });
    this.#child.on('error', (error) => this.#end(error.message));
    this.#child.on('close', (code, signal) =>
      this.#end(`the process exited with ${code ?? signal}`),
    );
  }

  async ask(request, parameters) {
    const { until = now() } = parameters;
    if (this.#dead) throw this.#dead;
    const id = String(++this.#requests);
    const words = Object.entries(parameters).map(([name, value]) => `${name}=${value}`);
    let timer;
    try {
      return await new Promise((resolve, reject) => {
        const late = new Error(`${this.name}: no result within ${RESULT_LIMIT / 1000} s`);
        timer = setTimeout(() => reject(late), RESULT_LIMIT + until - now());
        this.#answers.set(id, { resolve, reject });
        this.#child.stdin.write(`${[id, request, ...words].join(' ')}\n`);
      });
    } finally {
      clearTimeout(timer);
    }
  }

  async stop() {
    const child = this.#child;
    if (this.#dead || child.pid === undefined) return;
    const closed = once(child, 'close');
    child.kill('SIGKILL');
    await closed;
  }

  #receive(line) {
    const [id, outcome, ...rest] = line.split(' ');
    const answer = this.#answers.get(id);
    this.#answers.delete(id);
    if (outcome === 'error') answer?.reject(new Error(`${this.name}: ${rest.join(' ')}`));
    else answer?.resolve(outcome && JSON.parse(rest.join(' ')));
  }

  #end(how) {
    this.#dead ??= new Error(`${this.name}: ${how}: ${this.#log}`);
    for (const { reject } of this.#answers.values()) reject(this.#dead);
    this.#answers.clear();
  }
}
