import { Injectable, type OnApplicationShutdown } from '@nestjs/common';
import { type Lease, LockService } from 'nestjs-zookeeper';

/** Closes and opens the tills of the shop, by the injected service. */
@Injectable()
export class TillService implements OnApplicationShutdown {
  private readonly leases = new Map<string, Lease>();

  constructor(private readonly locks: LockService) {}

  async close(id: string): Promise<void> {
    this.leases.set(id, await this.locks.acquire(id));
  }

  async open(id: string): Promise<void> {
    await this.leases.get(id)?.release();
    this.leases.delete(id);
  }

  /** Whether nobody has closed the till. */
  async isOpen(id: string): Promise<boolean> {
    const lease = await this.locks.tryAcquire(id);
    await lease?.release();
    return lease !== undefined;
  }

  async onApplicationShutdown(): Promise<void> {
    await Promise.all([...this.leases.keys()].map((id) => this.open(id)));
  }
}
