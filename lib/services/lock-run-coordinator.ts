import type { Lease } from '../recipes/index.js';
import type { LockService } from './lock.service.js';

/**
 * Runs each time of a `distributed` task of node-cron (4.6 or later) on one instance only. A `RunCoordinator` of node-cron.
 *
 * ```ts
 * cron.setRunCoordinator(new LockRunCoordinator(app.get(LockService)));
 * cron.schedule('0 3 * * *', report, { name: 'report', distributed: true });
 * ```
 *
 * The first instance that asks for a time acquires its lock, and holds it until the run is complete, and at least for the
 * `distributedLease` of the task, so that an instance whose clock is late by less does not run it again. The lock ends with
 * the process.
 *
 * @publicApi
 */
export class LockRunCoordinator {
  private readonly leases = new Map<string, Lease>();

  constructor(private readonly locks: Pick<LockService, 'tryAcquire'>) {}

  /**
   * Resolves to whether this instance runs the task.
   *
   * @param key the task and its time
   * @param holdAtLeast milliseconds
   * @throws what {@link LockService.tryAcquire} throws, such as a ConnectionError; node-cron then skips the run
   */
  async shouldRun(key: string, holdAtLeast: number): Promise<boolean> {
    const lease = await this.locks.tryAcquire(key, { holdAtLeast, holdAtMost: Infinity });
    if (lease) this.leases.set(key, lease);
    return lease !== undefined;
  }

  /** Releases the lock after a run. */
  onComplete(key: string): void {
    void this.leases.get(key)?.release();
    this.leases.delete(key);
  }
}
