import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';

/** A message that a child sends of its own accord. */
// oxlint-disable-next-line typescript/no-explicit-any -- each program has its own messages
export type ChildMessage = { type: string } & Record<string, any>;

interface PendingAnswer {
  resolve(result: unknown): void;
  reject(error: Error): void;
}

/** A process of a program that uses child-side.mjs. */
export class Child {
  killed = false;
  /** Receives the messages that answer no request. */
  onMessage: (message: ChildMessage) => void = () => {};
  readonly exited: Promise<unknown>;
  readonly #answers = new Map<number, PendingAnswer>();
  readonly #child: ChildProcess;
  #tickets = 0;

  constructor(
    readonly id: string,
    program: string,
    args: readonly string[],
    env: NodeJS.ProcessEnv = {},
  ) {
    this.#child = fork(program, args, {
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
      env: { ...process.env, ...env },
      // JSON cannot carry fencing tokens, which are bigints.
      serialization: 'advanced',
    });
    this.exited = once(this.#child, 'exit');
    this.#child.on('message', (message: ChildMessage) => this.#receive(message));
    void this.exited.then(() => {
      for (const { reject } of this.#answers.values()) reject(new Error(`${id} has exited`));
    });
  }

  get pid(): number {
    return this.#child.pid!;
  }

  /** Resolves with the child's answer. Rejects if the request fails or the child exits first. */
  ask<T>(request: string, argument?: unknown): Promise<T> {
    const ticket = ++this.#tickets;
    return new Promise<T>((resolve, reject) => {
      this.#answers.set(ticket, { resolve: resolve as PendingAnswer['resolve'], reject });
      this.#child.send({ ticket, request, argument }, (error) => error && reject(error));
    }).finally(() => this.#answers.delete(ticket));
  }

  /** Stops the process with SIGSTOP: none of its code runs, timers included. */
  pause(): void {
    this.#child.kill('SIGSTOP');
  }

  resume(): void {
    this.#child.kill('SIGCONT');
  }

  async kill(): Promise<void> {
    this.killed = true;
    this.#child.kill('SIGKILL');
    await this.exited;
  }

  #receive(message: ChildMessage): void {
    if (message.type !== 'answer') return this.onMessage(message);
    const { resolve, reject } = this.#answers.get(message.ticket as number)!;
    if (message.failure) reject(new Error(`${this.id}: ${message.failure}`));
    else resolve(message.result);
  }
}
