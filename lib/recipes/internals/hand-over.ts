import type { Stat, ZkClient } from '../../client/index.js';
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

/** Who wants the lock here. */
export interface Caller {
  /** What the znode is to say about it. */
  readonly data: Uint8Array;
  readonly linger: number;
}

/** Whose turn it is in this process. */
export interface Next extends Caller {
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
  /** Of the caller of the latest grant. */
  private linger = 0;
  private data: Uint8Array;
  private said: Caller;
  /** The server certainly has the mark by which tries elsewhere know that this process lets the lock linger. */
  private mayLinger: boolean;
  /** One after the other: each needs the version that the one before it made. */
  private writes: Promise<void> = Promise.resolve();
  private renewal: Promise<void> | undefined;
  /** Of the next grant. */
  private kind: GrantKind = 'cold';
  private readonly stay: Stay;
  private version: number;
  private describing: NodeJS.Timeout | undefined;

  /**
   * @param said what the znode was made for and with
   */
  constructor(
    client: ZkClient,
    private readonly spec: HandOverSpec,
    private readonly place: Place,
    said: Caller,
  ) {
    const { recipe, path, queue } = spec;
    this.said = { data: place.said?.data ?? said.data, linger: said.linger };
    this.mayLinger = said.linger > 0;
    this.data = said.data;
    this.version = place.said?.version ?? 0;
    this.tenure = new Tenure(client, recipe, path, place, () => this.next());
    this.company = new Company(client, place.session, queue, {
      others: place.others.length > 0,
      isOther: (children) => spec.isOther(children),
      onArrival: () => this.stay.yieldToOthers(),
    });
    this.stay = new Stay(this.tenure, this.company);
    void this.tenure.over.then(() => this.stop());
    void this.next();
  }

  /** Resolves when the znode's deletion was sent. */
  get over(): Promise<void> {
    return this.tenure.over;
  }

  get node(): string {
    return this.place.nodes[0]!;
  }

  /** It has been granted once at least. */
  get granted(): boolean {
    return this.given > 0;
  }

  /** Nobody has the lock, and nobody is about to: the znode stays for who comes next. */
  get idle(): boolean {
    return this.stay.active;
  }

  /** Who comes while the znode lingers has the lock at once, unless something has to come before that. */
  join(caller: Caller): Grant | undefined {
    if (
      !this.idle ||
      !this.tenure.grantsOn ||
      this.lacksZxid() ||
      this.bound.before !== 'nothing'
    ) {
      return undefined;
    }
    this.stay.end();
    this.kind = 'lingering';
    return this.grant(caller);
  }

  /** Somebody came to wait. */
  goOn(): void {
    if (!this.idle) return;
    this.kind = 'lingering';
    void this.next();
  }

  /** The lock is free. */
  private next(): Promise<void> | void {
    this.stay.end();
    const { tenure, company, bound } = this;
    const waiter = this.spec.next();
    if (!waiter && tenure.staysOn) return this.beIdle();
    if (!waiter || !tenure.grantsOn) return this.giveBack();
    if (this.given === 0) return waiter.take(this.grant(waiter));
    if (this.lacksZxid()) return this.nextAfter(this.renewal!);
    const { before } = bound;
    if (before === 'others') {
      if (company.others) return this.giveBack();
      if (!company.alone) return this.nextAfter(company.look());
      bound.startAgain();
      return this.nextAfter(nextTurn());
    }
    if (before === 'next turn') return this.nextAfter(nextTurn());
    waiter.take(this.grant(waiter));
  }

  /** Resolves when tries elsewhere know of it: without the mark, they would be refused although nobody holds the lock. */
  private beIdle(): Promise<void> | void {
    const { stay, data, linger } = this;
    stay.begin(linger);
    if (linger === 0 || this.mayLinger) return;
    clearTimeout(this.describing);
    if (this.said.linger === 0) void this.say({ data, linger });
    return this.writes.then(() => {
      if (stay.active && !this.mayLinger) return this.tenure.giveBack();
    });
  }

  private grant({ data, linger }: Caller): Grant {
    const grant = this.tenure.grant(this.kind);
    this.kind = 'handed-over';
    this.bound.count();
    // From the second one on it matters who else waits: known by the time the bound is reached.
    if (++this.given === 2) void this.company.look();
    this.data = data;
    this.linger = linger;
    this.describe();
    return grant;
  }

  /** Whether the next grant needs a zxid that is not there yet. */
  private lacksZxid(): boolean {
    const { tenure } = this;
    if (tenure.runningOut) this.renewal ??= this.renew();
    return tenure.exhausted;
  }

  private nextAfter(step: Promise<void>): void {
    step.then(
      () => this.next(),
      () => this.giveBack(),
    );
  }

  /** Long before it is needed: it takes a round trip. Rejects where somebody asked for the lock meanwhile. */
  private renew(): Promise<void> {
    const renewal = this.write(this.said).then(({ mzxid }) => {
      this.renewal = undefined;
      this.tenure.renew(mzxid);
    });
    // Who needs it looks at it.
    renewal.catch(() => {});
    return renewal;
  }

  private describe(): void {
    clearTimeout(this.describing);
    const { data, linger } = this;
    const said = this.said.data;
    if (data === said || Buffer.compare(data, said) === 0) return;
    // The znode was made for a waiter that left.
    if (this.given === 1) void this.say({ data, linger });
    else
      this.describing = setTimeout(() => void this.say({ data, linger }), DESCRIBE_AFTER).unref();
  }

  private async say(caller: Caller): Promise<void> {
    this.said = caller;
    try {
      await this.write(caller);
    } catch {
      // Then it says of another holder what it said of the last one.
    }
  }

  private write({ data, linger }: Caller): Promise<Stat> {
    const { session, nodes } = this.place;
    if (linger === 0) this.mayLinger = false;
    const written = this.writes.then(async () => {
      // By version: a request for revocation stays.
      const stat = await session.set(nodes[0]!, data, this.version);
      this.version = stat.version;
      // A later write that removes the mark may be under way already.
      this.mayLinger = linger > 0 && this.said.linger > 0;
      return stat;
    });
    this.writes = written.then(
      () => {},
      () => {},
    );
    return written;
  }

  private giveBack(): void {
    void this.tenure.giveBack();
  }

  private stop(): void {
    clearTimeout(this.describing);
  }
}
