import type { Lease } from '../recipes/index.js';
import { Roster } from '../recipes/roster.js';
import { partsOf } from './tracked-lease.js';

/** The leases that a service has given out and that did not come back: what a shutdown waits for. */
export class HeldLeases {
  private readonly leases = new Roster<Lease>();
  private onEmpty: (() => void) | undefined;

  [Symbol.iterator](): Iterator<Lease> {
    return this.leases[Symbol.iterator]();
  }

  add(lease: Lease): void {
    this.leases.add(lease);
  }

  delete(lease: Lease): void {
    this.leases.delete(lease);
    if (this.leases.size === 0) this.onEmpty?.();
  }

  /** Forgets what was lost, for holders who never give a lost lease back. */
  sweep(): void {
    for (const lease of this.leases) if (!isHeld(lease)) this.delete(lease);
  }

  has(path: string): boolean {
    for (const lease of this.leases) {
      if (partsOf(lease).some((part) => part.path === path && part.held)) return true;
    }
    return false;
  }

  /** Waits until all came back, at most `limit` milliseconds; the keys of those that did not. */
  async drained(limit: number): Promise<string[]> {
    // What is lost meanwhile need not come back.
    const lost = () => this.sweep();
    for (const { signal } of [...this.leases].flatMap(partsOf)) {
      signal.addEventListener('abort', lost, { once: true });
    }
    this.sweep();
    if (this.leases.size > 0) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, limit);
        this.onEmpty = () => {
          clearTimeout(timer);
          resolve();
        };
      });
      this.onEmpty = undefined;
    }
    return [...this.leases].filter(isHeld).map((lease) => lease.key);
  }
}

/** At least in part: a multi-lock that lost one of its locks still holds the others. */
function isHeld(lease: Lease): boolean {
  return partsOf(lease).some((part) => part.held);
}
