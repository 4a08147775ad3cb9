import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { environment, now } from './clock.js';

/** Characters of a process's error output that are kept for error messages. */
const LOG_LENGTH = 4_000;
/** Milliseconds within which a process must be ready, and a result must arrive after the end of its measurement. */
const ANSWER_LIMIT = 60_000;

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

  constructor(system, role, [program, ...args]) {
    this.system = system;
    this.role = role;
    this.#child = spawn(program, args, {
      env: { ...process.env, ...environment },
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    this.ready = this.#answer('ready', ANSWER_LIMIT);
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
    const answer = this.#answer(id, ANSWER_LIMIT + until - now());
    this.#child.stdin.write(`${[id, request, ...words].join(' ')}\n`);
    return answer;
  }

  async stop() {
    const child = this.#child;
    if (this.#dead || child.pid === undefined) return;
    const closed = once(child, 'close');
    child.kill('SIGKILL');
    await closed;
  }

  async #answer(id, limit) {
    let timer;
    try {
      return await new Promise((resolve, reject) => {
        const late = new Error(`${this.role}: no answer within ${Math.round(limit / 1000)} s`);
        timer = setTimeout(() => reject(late), limit);
        this.#answers.set(id, { resolve, reject });
      });
    } finally {
      clearTimeout(timer);
    }
  }

  #receive(line) {
    const [id, outcome, ...rest] = line.split(' ');
    const answer = this.#answers.get(id);
    this.#answers.delete(id);
    if (outcome === 'error') answer?.reject(new Error(`${this.role}: ${rest.join(' ')}`));
    else answer?.resolve(outcome && JSON.parse(rest.join(' ')));
  }

  #end(how) {
    this.#dead ??= new Error(`${this.role}: ${how}: ${this.#log}`);
    for (const { reject } of this.#answers.values()) reject(this.#dead);
    this.#answers.clear();
  }
}
