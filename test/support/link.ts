import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { afterEach } from 'vitest';
import type { TestServer } from './servers.js';

/** Creates links to the file's server, and removes them after each test. */
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

/** The network between one client and its server. It can break, refuse and silently drop. */
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

  /** Breaks every connection; new connections are accepted. */
  cut = () => this.#call('cut');
  /** Breaks every connection and stops listening. */
  down = () => this.#call('down');
  up = () => this.#call('up');
  /** Holds back all data in both directions. Connections stay open and new ones are accepted. */
  silence = () => this.#call('silence');
  /** Delivers the data that was held back. */
  speak = () => this.#call('speak');
  /**
   * Drops data from the server on the present connections from now on; data from the client
   * arrives.
   */
  deafen = () => this.#call('deafen');
  /**
   * Drops data from the client on the present connections from now on; data from the server
   * arrives.
   */
  mute = () => this.#call('mute');
  /**
   * Delivers the next request of each connection, and breaks the connection instead of the reply.
   */
  dropReply = () => this.#call('dropReply');
  /** The number of connections so far. */
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
