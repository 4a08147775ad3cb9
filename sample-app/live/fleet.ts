import { ConflictException, NotFoundException, type OnApplicationShutdown } from '@nestjs/common';
import type { EmbeddedZooKeeper } from 'nestjs-zookeeper/embedded';
import type { ShopSettings } from '../shop/settings.js';
import type { EventStore } from './event-store.js';
import { FaultSet } from './fault-set.js';
import type { NetworkLink } from './network-link.js';
import type { ReportReader } from './report-reader.js';
import { Slot } from './slot.js';

export interface FleetOptions {
  readonly instances: number;
  readonly settings: ShopSettings & { zookeeper: string };
  /** The embedded ZooKeeper of this process, if any. */
  readonly server: EmbeddedZooKeeper | undefined;
  /** Between this process and ZooKeeper. */
  readonly link: NetworkLink;
}

/** The instances of the shop behind the page. */
export class Fleet implements OnApplicationShutdown {
  /** The faults of ZooKeeper. */
  readonly zookeeper: FaultSet;

  private constructor(
    readonly slots: readonly Slot[],
    private settings: ShopSettings,
    readonly canExpire: boolean,
    private readonly link: NetworkLink,
    private readonly closing: AbortController,
    store: EventStore,
  ) {
    this.zookeeper = new FaultSet(undefined, store);
  }

  static async start(
    { instances, settings, server, link }: FleetOptions,
    store: EventStore,
    reports: ReportReader,
  ): Promise<Fleet> {
    const closing = new AbortController();
    const context = { store, reports, server, signal: closing.signal };
    const slots = await Promise.all(
      Array.from({ length: instances }, (_, i) => Slot.create(i + 1, settings.zookeeper, context)),
    );
    const fleet = new Fleet(slots, settings, server !== undefined, link, closing, store);
    try {
      await Promise.all(slots.map((slot) => slot.start(settings)));
      return fleet;
    } catch (error) {
      await fleet.onApplicationShutdown();
      throw error;
    }
  }

  get sessionTimeout(): number {
    return this.settings.sessionTimeout;
  }

  get alive(): Slot[] {
    return this.slots.filter(({ life }) => life === 'alive');
  }

  get healthy(): Slot[] {
    return this.slots.filter(({ healthy }) => healthy);
  }

  slot(number: number): Slot {
    const slot = this.slots[number - 1];
    if (!slot) throw new NotFoundException(`there is no instance ${number}`);
    return slot;
  }

  /** Applies to present and future instances. */
  setDelay(delay: ShopSettings['delay']): void {
    this.settings = { ...this.settings, delay };
    for (const { instance } of this.alive) instance!.updateSettings({ delay });
  }

  /**
   * Holds back all data between ZooKeeper and its clients: they cannot tell this from a server that is stopped. It works for
   * the embedded server, which is a thread of this process, and for servers on other machines.
   */
  pauseZookeeper(seconds: number): void {
    if (this.zookeeper.has('pause')) throw new ConflictException('ZooKeeper is paused already');
    const ends = [this.link, ...this.slots.map(({ link }) => link)].map((link) => link.cut());
    this.zookeeper.begin('pause', { seconds, undo: () => ends.forEach((end) => end()) });
  }

  resumeZookeeper(): void {
    if (!this.zookeeper.end('pause')) throw new ConflictException('ZooKeeper is not paused');
  }

  revive(number: number): Promise<void> {
    return this.slot(number).start(this.settings);
  }

  /** Ends all faults and starts the dead instances. */
  async restore(): Promise<void> {
    this.zookeeper.endAll();
    for (const slot of this.slots) slot.faults.endAll();
    const dead = this.slots.filter(({ life }) => life === 'dead');
    await Promise.all(dead.map((slot) => slot.start(this.settings)));
  }

  async onApplicationShutdown(): Promise<void> {
    this.closing.abort();
    this.zookeeper.endAll();
    await Promise.all(this.slots.map((slot) => slot.stop()));
  }
}
