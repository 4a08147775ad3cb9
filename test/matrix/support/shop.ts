import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { currentLease, currentTerm } from 'nestjs-zookeeper';

/** The work of the locked handlers of every transport. Both instances share it. */
export class Shop {
  /** The maximum number of concurrent sales so far. */
  most = 0;
  sold = 0;
  /** Handlers that hold the lock until they lose it. */
  holding = 0;
  private selling = 0;

  async sell(): Promise<string> {
    this.most = Math.max(this.most, ++this.selling);
    await delay(10);
    this.selling--;
    this.sold++;
    return currentLease()!.key;
  }

  async lead(): Promise<string> {
    return currentTerm()!.election;
  }

  async hold(): Promise<string> {
    const { signal } = currentLease()!;
    this.holding++;
    if (!signal.aborted) await once(signal, 'abort');
    this.holding--;
    return 'lost';
  }
}
