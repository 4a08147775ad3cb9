import type { ZkClient } from '../client/index.js';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { GrantKind } from '../diagnostics/index.js';
import { Bound } from './bound.js';
import { Company } from './company.js';
import type { Grant, Recipe } from './grant.js';
import type { Place } from './queue.js';
import { Stay } from './stay.js';
import { Tenure } from './tenure.js';

/** Milliseconds: the znode says of a shorter hold by another caller only whose process it is. */
const DESCRIBE_AFTER = 50;

/** Whose turn it is in this process. */
export interface Next {
  /** What the znode is to say about it. */
  readonly data: Uint8Array;
  readonly linger: number;
  take(grant: Grant): void;
}

/** What is handed over, and where those are who want it elsewhere. */
export interface HandOverSpec {
  readonly recipe: Recipe;
  readonly path: string;
  /** The directory in which others wait. */
  readonly queue: string;
  /** Whether these children of that directory include others. */
  isOther(children: readonly string[]): boolean;
  /** Who waits longest here, of those who can take it. */
  next(): Next | undefined;
}

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
  private said: Uint8Array;
  /** Of the next grant. */
  private kind: GrantKind = 'cold';
  private readonly stay: Stay;
  private version: number;
  private describing: NodeJS.Timeout | undefined;

  /**
   * @param said the data that the znode was made with
   */
  constructor(
    client: ZkClient,
    private readonly spec: HandOverSpec,
    private readonly place: Place,
    said: Uint8Array,
  ) {
    const { recipe, path, queue } = spec;
    this.said = place.said?.data ?? said;
    this.version = place.said?.version ?? 0;
    this.tenure = new Tenure(client, recipe, path, place, () => this.next());
    this.company = new Company(client, place.session, queue, {
      others: place.others.length > 0,
      isOther: (children) => spec.isOther(children),
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

  get node(): string {
    return this.place.nodes[0]!;
  }

  /** Nobody has the lock, and nobody is about to: the znode stays for who comes next. */
  get idle(): boolean {
    return this.stay.active;
  }

  /** Somebody came to wait. */
  goOn(): void {
    if (!this.idle) return;
    this.kind = 'lingering';
    this.next();
  }

  /** The lock is free. */
  private next(): void {
    this.stay.end();
    const { tenure, company, bound } = this;
    const waiter = this.spec.next();
    if (!tenure.grantsOn) return this.giveBack();
    if (!waiter) return this.stay.begin(this.linger);
    if (this.given === 0) return this.give(waiter);
    if (tenure.exhausted) return this.nextAfter(this.renew());
    if (bound.reached) {
      if (company.others) return this.giveBack();
      if (!company.alone) return this.nextAfter(company.look());
      bound.startAgain();
      return this.nextAfter(nextTurn());
    }
    if (bound.turnIsOver) return this.nextAfter(nextTurn());
    this.give(waiter);
  }

  private give(waiter: Next): void {
    const grant = this.tenure.grant(this.kind);
    this.kind = 'handed-over';
    this.bound.count();
    // From the second one on it matters who else waits: known by the time the bound is reached.
    if (++this.given === 2) void this.company.look();
    this.linger = waiter.linger;
    this.describe(waiter.data);
    waiter.take(grant);
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
