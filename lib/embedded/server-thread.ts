import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import { Worker } from 'node:worker_threads';
import type { Fault, FaultTarget } from './faults.js';
import type { SavedStore } from './store.js';
import type { Answer, Controls, Request, WorkerInput } from './worker.js';

/** The id of the start; requests count from 1. */
const STARTING = 0;

interface Pending {
  resolve(result: unknown): void;
  reject(reason: Error): void;
}

/** One run of the server in its worker thread. */
export class ServerThread implements FaultTarget {
  port = 0;
  readonly #worker: Worker;
  readonly #exited: Promise<void>;
  readonly #pending = new Map<number, Pending>();
  #nextId = 1;
  #death: Error | undefined;

  private constructor(input: WorkerInput) {
    // The worker is plain JavaScript: it must not inherit loaders and flags.
    this.#worker = new Worker(workerFile(), {
      name: 'embedded-zookeeper',
      workerData: input,
      execArgv: [],
    });
    this.#worker.on('message', (answer: Answer) => this.#receive(answer));
    this.#worker.on('error', (error) => this.#die(error));
    this.#exited = new Promise((resolve) => {
      this.#worker.on('exit', (code) => {
        this.#die(new Error(`its thread exited with code ${code}`));
        resolve();
      });
    });
  }

  /** Resolves once clients can connect. */
  static async start(input: WorkerInput): Promise<ServerThread> {
    const thread = new ServerThread(input);
    thread.port = await thread.#settle<number>(STARTING, () => {});
    return thread;
  }

  /** Calls a method of the server. Rejects if the thread is not running. */
  call<M extends keyof Controls>(
    method: M,
    ...args: Parameters<Controls[M]>
  ): Promise<Awaited<ReturnType<Controls[M]>>> {
    const request: Request = { id: this.#nextId++, method, args };
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
    return this.#settle(request.id, () => this.#worker.postMessage(request));
  }

  addFault(id: number, fault: Fault): Promise<void> {
    return this.call('addFault', id, fault);
  }

  liftFault(id: number): Promise<void> {
    return this.call('liftFault', id);
  }

  /** Resolves to the data for a new start, after the thread has exited. */
  async stop(): Promise<SavedStore> {
    const saved = await this.call('close');
    this.#worker.ref();
    await this.#exited;
    return saved;
  }

  // The thread keeps the process alive only while a call is pending.
  #settle<T>(id: number, send: () => void): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (this.#death) return reject(this.#death);
      this.#pending.set(id, { resolve: resolve as Pending['resolve'], reject });
      this.#worker.ref();
      send();
    }).finally(() => {
      if (this.#pending.size === 0) this.#worker.unref();
    });
  }

  #receive(answer: Answer): void {
    const { id, result, failure } = answer;
    const pending = this.#pending.get(id);
    this.#pending.delete(id);
    if (failure) pending?.reject(Object.assign(new Error(failure.message), { code: failure.code }));
    else pending?.resolve(result);
  }

  #die(cause: Error): void {
    if (this.#death) return;
    this.#death = new Error(`the embedded ZooKeeper is not running: ${cause.message}`, { cause });
    for (const { reject } of this.#pending.values()) reject(this.#death);
    this.#pending.clear();
  }
}

/**
 * Returns the compiled worker. Beside TypeScript source, as under a test runner, there is none, and loaders
 * do not reach into threads: then the worker of the last build is used. In a bundle, the installed package has one.
 */
function workerFile(): URL {
  const isCompiled = import.meta.url.endsWith('.js');
  const path = isCompiled ? './worker.js' : '../../dist/embedded/worker.js';
  const file = new URL(path, import.meta.url);
  if (existsSync(file)) return file;
  if (!isCompiled) {
    throw new Error(
      `the embedded ZooKeeper's thread is not at ${file.pathname}: build the package first (npm run build)`,
    );
  }
  try {
    const entry = createRequire(import.meta.url).resolve('nestjs-zookeeper/embedded');
    return new URL('./worker.js', pathToFileURL(entry));
  } catch (cause) {
    throw new Error(
      `the embedded ZooKeeper's thread is not at ${file.pathname}: install nestjs-zookeeper beside the bundle`,
      { cause },
    );
  }
}
