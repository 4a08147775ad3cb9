interface Grant {
  readonly instance: number;
  readonly lease: string;
  readonly token: bigint;
  /** The instance has noticed that its session ended. */
  lost?: boolean;
  /** When the instance released it. */
  releasedAt?: number;
}

/** The latest grant of each lock, from the events of all instances. */
export class LockHolders {
  private readonly grants = new Map<string, Grant>();

  granted(key: string, grant: Grant): void {
    const latest = this.grants.get(key);
    // Batches of different instances may arrive in another order than their events.
    if (!latest || grant.token > latest.token) this.grants.set(key, grant);
  }

  released(key: string, lease: string, at: number): void {
    const grant = this.grants.get(key);
    if (grant?.lease === lease) grant.releasedAt = at;
  }

  lost(key: string, lease: string): void {
    const grant = this.grants.get(key);
    if (grant?.lease === lease) grant.lost = true;
  }

  /** Whether the instance believes that it holds a lock. */
  holds(instance: number): boolean {
    return this.of(instance).some(({ lost, releasedAt }) => !lost && releasedAt === undefined);
  }

  /**
   * Whether an instance that has been silent since then blocks a lock: ZooKeeper does not know of a later release, and
   * deletes the znode of the holder when it expires its session.
   */
  blocks(instance: number, silentSince: number): boolean {
    return this.of(instance).some(({ releasedAt = Infinity }) => releasedAt >= silentSince);
  }

  forget(instance: number): void {
    for (const [key, grant] of this.grants)
      if (grant.instance === instance) this.grants.delete(key);
  }

  private of(instance: number): Grant[] {
    return [...this.grants.values()].filter((grant) => grant.instance === instance);
  }
}
