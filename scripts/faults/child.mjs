import { fork } from 'node:child_process';
import { once } from 'node:events';

/** A process of a program that uses child-side.mjs. */
export class Child {
  killed = false;
  onNews = () => {};
  #answers = new Map();
  #tickets = 0;
  #child;

  constructor(id, program, args, env = {}) {
    this.id = id;
    this.#child = fork(program, args, {
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
      env: { ...process.env, ...env },
      // Tokens are bigints.
      serialization: 'advanced',
    });
    this.exited = once(this.#child, 'exit');
    this.#child.on('message', (message) => this.#take(message));
    void this.exited.then(() => {
      for (const { reject } of this.#answers.values()) reject(new Error(`${id} is gone`));
    });
  }

  get pid() {
    return this.#child.pid;
  }

  ask(request, argument) {
    const ticket = ++this.#tickets;
    return new Promise((resolve, reject) => {
      this.#answers.set(ticket, { resolve, reject });
      this.#child.send({ ticket, request, argument }, (error) => error && reject(error));
    }).finally(() => this.#answers.delete(ticket));
  }

  /** Stops the process as it stands; not even its clock's timers run. */
  pause() {
    this.#child.kill('SIGSTOP');
  }

  resume() {
    this.#child.kill('SIGCONT');
  }

  async kill() {
    this.killed = true;
    this.#child.kill('SIGKILL');
    await this.exited;
  }

  #take(message) {
    if (message.type !== 'answer') return this.onNews(message);
    const { resolve, reject } = this.#answers.get(message.ticket);
    if (message.failure) reject(new Error(`${this.id}: ${message.failure}`));
    else resolve(message.result);
  }
}
