import { ConflictException, NotFoundException, type OnApplicationShutdown } from '@nestjs/common';
import type { EmbeddedZooKeeper } from 'nestjs-zookeeper/embedded';
import { Instance } from '../seckill/instances.js';
import type { ShopSettings } from '../shop/settings.js';

/** A slot for one instance, which may die and be started again. */
export interface Place {
  readonly number: number;
  instance?: Instance;
  starting: boolean;
}

/** The instances of the shop behind the page. */
export class Fleet implements OnApplicationShutdown {
  readonly places: readonly Place[];
  private readonly closing = new AbortController();

  private constructor(
    count: number,
    private settings: ShopSettings,
    private readonly server: EmbeddedZooKeeper | undefined,
  ) {
    this.places = Array.from({ length: count }, (_, i) => ({ number: i + 1, starting: false }));
  }

  /** @param server the embedded ZooKeeper of this process, if any */
  static async start(
    count: number,
    settings: ShopSettings,
    server: EmbeddedZooKeeper | undefined,
  ): Promise<Fleet> {
    const fleet = new Fleet(count, settings, server);
    try {
      await Promise.all(fleet.places.map((place) => fleet.fill(place)));
      return fleet;
    } catch (error) {
      await fleet.onApplicationShutdown();
      throw error;
    }
  }

  get canExpire(): boolean {
    return this.server !== undefined;
  }

  get alive(): { number: number; instance: Instance }[] {
    return this.places.flatMap(({ number, instance }) =>
      instance?.alive ? { number, instance } : [],
    );
  }

  numberOf(pid: number | undefined): number | undefined {
    return this.places.find(({ instance }) => instance?.pid === pid)?.number;
  }

  /** Applies to present and future instances. */
  setDelay(delay: ShopSettings['delay']): void {
    this.settings = { ...this.settings, delay };
    for (const { instance } of this.alive) instance.tell({ delay });
  }

  kill(number: number): void {
    this.living(number).kill();
  }

  async revive(number: number): Promise<void> {
    const place = this.place(number);
    if (place.starting || place.instance?.alive) {
      throw new ConflictException(`instance ${number} is alive`);
    }
    await this.fill(place);
  }

  async expire(number: number): Promise<void> {
    const { session } = this.living(number).connection;
    if (!this.server || !session) {
      throw new ConflictException(`the session of instance ${number} cannot be ended from here`);
    }
    await this.server.expireSession(session);
  }

  async onApplicationShutdown(): Promise<void> {
    this.closing.abort();
    await Promise.all(this.alive.map(({ instance }) => instance.stop()));
  }

  private async fill(place: Place): Promise<void> {
    place.starting = true;
    try {
      place.instance = await Instance.start(this.settings, { signal: this.closing.signal });
    } finally {
      place.starting = false;
    }
  }

  private living(number: number): Instance {
    const { instance } = this.place(number);
    if (!instance?.alive) throw new ConflictException(`instance ${number} is not alive`);
    return instance;
  }

  private place(number: number): Place {
    const place = this.places[number - 1];
    if (!place) throw new NotFoundException(`there is no instance ${number}`);
    return place;
  }
}
