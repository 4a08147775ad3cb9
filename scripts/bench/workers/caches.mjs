import { ZkCache } from 'nestjs-zookeeper/coordination';
import { now } from '../clock.js';
import { drive } from './drive.mjs';

/** Measures a cache of many znodes, one at a time. */
export class Caches {
  #cache;

  constructor(client, connect) {
    this.client = client;
    this.connect = connect;
  }

  /** Starts a cache. Returns the milliseconds until its first copy is complete. */
  async open(path) {
    await this.#cache?.close();
    this.#cache = new ZkCache(this.client, path);
    const start = now();
    this.#cache.start();
    await this.#cache.initialized();
    return { initialize: now() - start };
  }

  /** Sets one znode after the other, from another session, and waits for the event of each. Closes the cache. */
  async set(znodes, load) {
    const writer = await this.connect();
    /** @type {(time: number) => void} */
    let changed = () => {};
    this.#cache.onChange(() => changed(now()));
    try {
      return await drive(async (_, turn) => {
        const event = new Promise((resolve) => (changed = resolve));
        await writer.set(`${this.#cache.path}/${turn % znodes}`, String(turn));
        return event;
      }, load);
    } finally {
      await this.#cache.close();
      await writer.close();
    }
  }
}
