interface Grant {
  readonly instance: number;
  readonly lease: string;
  readonly token: bigint;
  /** The instance has noticed that its session ended. */
  lost?: boolean;
}

/** The latest grant of each lock, from the events of all instances. */
export class LockHolders {
  private readonly grants = new Map<string, Grant>();

  granted(key: string, grant: Grant): void {
    const latest = this.grants.get(key);
    // Batches of different instances may arrive in another order than their events.
    if (!latest || grant.token > latest.token) this.grants.set(key, grant);
  }

  released(key: string, lease: string): void {
    if (this.grants.get(key)?.lease === lease) this.grants.delete(key);
  }

  lost(key: string, lease: string): void {
    const grant = this.grants.get(key);
    if (grant?.lease === lease) grant.lost = true;
  }

  /** Whether the instance has the latest grant of a lock: until it releases it, or another is granted it. */
  hasLatestGrant(instance: number): boolean {
    return this.of(instance).length > 0;
  }

  /** Whether the instance believes that it holds a lock. */
  holds(instance: number): boolean {
    return this.of(instance).some(({ lost }) => !lost);
  }

  forget(instance: number): void {
    for (const [key, grant] of this.grants)
      if (grant.instance === instance) this.grants.delete(key);
  }

  private of(instance: number): Grant[] {
    return [...this.grants.values()].filter((grant) => grant.instance === instance);
  }
}
