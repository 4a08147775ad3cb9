import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { afterEach } from 'vitest';
import type { TestServer } from './servers.js';

/** Links to the file's server that are gone after each test. */
export function useLinks(server: TestServer) {
  const open: Link[] = [];
  afterEach(async () => {
    await Promise.all(open.splice(0).map((link) => link[Symbol.asyncDispose]()));
  });
  return async (): Promise<Link> => {
    const link = await Link.to(server.port);
    open.push(link);
    return link;
  };
}

/** The network between one client and its server: it can be cut, refuse, and fall silent without a word. */
export class Link implements AsyncDisposable {
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

  static async to(target: number, host = '127.0.0.1'): Promise<Link> {
    const worker = new Worker(new URL('./link-worker.mjs', import.meta.url), {
      workerData: { target, host },
    });
    const [{ port }] = (await once(worker, 'message')) as [{ port: number }];
    return new Link(worker, port);
  }

  get connectString(): string {
    return `127.0.0.1:${this.port}`;
  }

  /** Breaks every connection; new ones are welcome. */
  cut = () => this.#call('cut');
  /** Breaks every connection, and nothing listens any more. */
  down = () => this.#call('down');
  up = () => this.#call('up');
  /** Nothing passes any more in either direction, though connections stand and new ones are accepted. */
  silence = () => this.#call('silence');
  /** What was held back passes. */
  speak = () => this.#call('speak');
  /** What the server says on the present connections is lost from now on, what the client says arrives. */
  deafen = () => this.#call('deafen');
  /** What the client says on the present connections is lost from now on, what the server says arrives. */
  mute = () => this.#call('mute');
  /** Lets the next request of each connection through and breaks the connection instead of the answer. */
  dropReply = () => this.#call('dropReply');
  /** Connections made so far. */
  accepted = () => this.#call('accepted') as Promise<number>;

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#worker.terminate();
  }

  #call(command: string): Promise<unknown> {
    const id = ++this.#calls;
    return new Promise((resolve) => {
      this.#answers.set(id, resolve);
      this.#worker.postMessage({ id, command });
    });
  }
}
