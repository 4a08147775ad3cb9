import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import type { LinkOptions, TestLink } from './servers.js';

/** The methods of the link in the worker. */
export type Command = 'cut' | 'down' | 'up' | 'holdAll' | 'holdReplies' | 'resume' | 'accepted';

/** A TCP proxy on a port of its own, in a worker thread. */
export class Link implements TestLink {
  readonly #worker: Worker;
  readonly #answers = new Map<number, (result: unknown) => void>();
  #calls = 0;

  private constructor(
    worker: Worker,
    readonly port: number,
  ) {
    this.#worker = worker;
    worker.on('message', ({ id, result }: { id: number; result: unknown }) => {
      this.#answers.get(id)?.(result);
      this.#answers.delete(id);
    });
  }

  static async to(
    target: number,
    { latency = 0 }: LinkOptions = {},
    host = '127.0.0.1',
  ): Promise<Link> {
    const worker = new Worker(new URL('./link-worker.mjs', import.meta.url), {
      workerData: { target, host, latency },
    });
    const [{ port }] = (await once(worker, 'message')) as [{ port: number }];
    return new Link(worker, port);
  }

  get connectString(): string {
    return `127.0.0.1:${this.port}`;
  }

  cut = () => this.#call('cut');
  down = () => this.#call('down');
  up = () => this.#call('up');
  holdAll = () => this.#call('holdAll');
  holdReplies = () => this.#call('holdReplies');
  resume = () => this.#call('resume');
  accepted = () => this.#call('accepted') as Promise<number>;

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#worker.terminate();
  }

  #call(command: Command): Promise<unknown> {
    const id = ++this.#calls;
    return new Promise((resolve) => {
      this.#answers.set(id, resolve);
      this.#worker.postMessage({ id, command });
    });
  }
}
