import type { ZkClient } from '../client/index.js';
import { Bound } from './bound.js';
import { Company } from './company.js';
import type { OwnerSpec, OwnerWaiter } from './owner.js';
import type { Place } from './queue.js';
import { queueOf } from './queue-names.js';
import { Stay } from './stay.js';
import { Tenure } from './tenure.js';

/** Milliseconds: the znode says of a shorter hold by another caller only whose process it is. */
const DESCRIBE_AFTER = 50;

/**
 * The grants that one znode gives to the callers of an owner, one after another: until others have
 * waited long enough, nobody is left here, or somebody asks for the lock.
 */
export class Turns {
  private readonly tenure: Tenure;
  private readonly company: Company;
  private readonly bound = new Bound();
  private given = 0;
  private linger = 0;
  private readonly stay: Stay;
  private version = 0;
  private describing: NodeJS.Timeout | undefined;

  /**
   * @param said the data that the znode was made with
   * @param first who waits longest
   */
  constructor(
    client: ZkClient,
    spec: OwnerSpec,
    private readonly place: Place,
    private said: Uint8Array,
    private readonly first: () => OwnerWaiter | undefined,
  ) {
    const { recipe, parent } = spec;
    this.tenure = new Tenure(client, recipe, parent, place, () => this.next());
    this.company = new Company(client, place.session, parent, {
      others: place.others.length > 0,
      isOther: (children) => queueOf(spec, children).length > 1,
      onArrival: () => this.stay.yieldToOthers(),
    });
    this.stay = new Stay(this.tenure, this.company);
    void this.tenure.over.then(() => this.stop());
    this.next();
  }

  /** Resolves when the znode's deletion was sent. */
  get over(): Promise<void> {
    return this.tenure.over;
  }

  /** Nobody has the lock, and nobody is about to: the znode stays for who comes next. */
  get idle(): boolean {
    return this.stay.active;
  }

  /** Somebody came to wait. */
  goOn(): void {
    if (this.idle) this.next();
  }

  /** The lock is free. */
  private next(): void {
    this.stay.end();
    const { tenure, company, bound } = this;
    const waiter = this.first();
    if (!tenure.grantsOn) return this.giveBack();
    if (!waiter) return this.stay.begin(this.linger);
    if (this.given === 0) return this.give(waiter);
    if (tenure.exhausted) return this.nextAfter(this.renew());
    if (bound.reached) {
      if (company.others) return this.giveBack();
      if (!company.alone) return this.nextAfter(company.look());
      bound.startAgain();
    }
    this.give(waiter);
  }

  private give(waiter: OwnerWaiter): void {
    const grant = this.tenure.grant();
    this.bound.count();
    // From the second one on it matters who else waits: known by the time the bound is reached.
    if (++this.given === 2) void this.company.look();
    this.linger = waiter.want.linger;
    this.describe(waiter.data);
    waiter.resolve(grant);
  }

  private nextAfter(step: Promise<void>): void {
    step.then(
      () => this.next(),
      () => this.giveBack(),
    );
  }

  private async renew(): Promise<void> {
    this.version = await this.tenure.renew(this.said, this.version);
  }

  private describe(data: Uint8Array): void {
    clearTimeout(this.describing);
    if (data === this.said || Buffer.compare(data, this.said) === 0) return;
    // The znode was made for a waiter that left.
    if (this.given === 1) void this.say(data);
    else this.describing = setTimeout(() => void this.say(data), DESCRIBE_AFTER).unref();
  }

  private async say(data: Uint8Array): Promise<void> {
    this.said = data;
    try {
      const { session, nodes } = this.place;
      // By version: a request for revocation stays.
      ({ version: this.version } = await session.set(nodes[0]!, data, this.version));
    } catch {
      // Then it says of another holder what it said of the last one.
    }
  }

  private giveBack(): void {
    void this.tenure.giveBack();
  }

  private stop(): void {
    clearTimeout(this.describing);
  }
}
