import { Worker } from 'node:worker_threads';
import type { Fault } from './active-faults.js';
import type { FaultLine } from './faults.js';
import type { Answer, Command, Request, WorkerInput } from './messages.js';
import type { SavedStore } from './store.js';
import { workerFile } from './worker-file.js';

interface Pending {
  resolve(result: SavedStore | boolean | undefined): void;
  reject(reason: Error): void;
}

/** One run of the server in its worker thread, from listening to its end. */
export class ServerThread implements FaultLine {
  port = 0;
  readonly #worker: Worker;
  readonly #exited: Promise<void>;
  readonly #pending = new Map<number, Pending>();
  #nextId = 1;
  #death: Error | undefined;

  private constructor(input: WorkerInput) {
    // Loaders and flags of the main thread are not for this one: it is plain JavaScript.
    this.#worker = new Worker(workerFile(), {
      name: 'embedded-zookeeper',
      workerData: input,
      execArgv: [],
    });
    this.#worker.on('message', (answer: Answer) => this.#receive(answer));
    this.#worker.on('error', (error) => this.#die(error));
    this.#exited = new Promise((resolve) => {
      this.#worker.on('exit', (code) => {
        this.#die(new Error(`it exited with code ${code}`));
        resolve();
      });
    });
  }

  /** Resolves once clients can connect. */
  static async start(input: WorkerInput): Promise<ServerThread> {
    const thread = new ServerThread(input);
    await thread.#settle(STARTING, () => {});
    return thread;
  }

  async dropConnections(): Promise<void> {
    await this.#ask({ type: 'dropConnections' });
  }

  async dropConnection(session: bigint): Promise<boolean> {
    return (await this.#ask({ type: 'dropConnection', session })) === true;
  }

  async skipClock(ms: number): Promise<void> {
    await this.#ask({ type: 'skipClock', ms });
  }

  async addFault(id: number, fault: Fault): Promise<void> {
    await this.#ask({ type: 'addFault', id, fault });
  }

  async liftFault(id: number): Promise<void> {
    await this.#ask({ type: 'liftFault', id });
  }

  async expireSession(id: bigint): Promise<boolean> {
    return (await this.#ask({ type: 'expireSession', id })) === true;
  }

  /** What to start again with. */
  async stop(): Promise<SavedStore> {
    const saved = (await this.#ask({ type: 'stop' })) as SavedStore;
    this.#worker.ref();
    await this.#exited;
    return saved;
  }

  #ask(command: Command): Promise<SavedStore | boolean | undefined> {
    const request: Request = { id: this.#nextId++, command };
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
    return this.#settle(request.id, () => this.#worker.postMessage(request));
  }

  // The thread keeps the process alive only while somebody waits for it.
  #settle(id: number, ask: () => void): Promise<SavedStore | boolean | undefined> {
    return new Promise<SavedStore | boolean | undefined>((resolve, reject) => {
      if (this.#death) return reject(this.#death);
      this.#pending.set(id, { resolve, reject });
      this.#worker.ref();
      ask();
    }).finally(() => {
      if (this.#pending.size === 0) this.#worker.unref();
    });
  }

  #receive(answer: Answer): void {
    if (answer.type === 'failed') {
      const { reason, code } = answer;
      this.#die(Object.assign(new Error(reason), { code }));
      return;
    }
    if (answer.type === 'listening') this.port = answer.port;
    const id = answer.type === 'done' ? answer.id : STARTING;
    const pending = this.#pending.get(id);
    this.#pending.delete(id);
    pending?.resolve(answer.type === 'done' ? answer.result : undefined);
  }

  #die(cause: Error & { code?: string }): void {
    if (this.#death) return;
    const message = `the embedded ZooKeeper is not running: ${cause.message}`;
    this.#death = Object.assign(new Error(message, { cause }), cause.code && { code: cause.code });
    for (const { reject } of this.#pending.values()) reject(this.#death);
    this.#pending.clear();
  }
}

/** Stands for the start among the ids of requests. */
const STARTING = 0;
