import {
  ConflictException,
  NotImplementedException,
  ServiceUnavailableException,
} from '@nestjs/common';
import type { EmbeddedZooKeeper } from 'nestjs-zookeeper/embedded';
import { Instance } from '../seckill/instances.js';
import type { ShopSettings } from '../shop/settings.js';
import type { EventStore } from './event-store.js';
import type { Fault, InstanceStatus } from './events.js';
import { NetworkLink } from './network-link.js';
import { ProcessPause } from './process-pause.js';
import type { ReportReader } from './report-reader.js';

export const CAN_PAUSE = process.platform !== 'win32';

export interface SlotContext {
  readonly store: EventStore;
  readonly reports: ReportReader;
  /** The embedded ZooKeeper of this process, if any. */
  readonly server: EmbeddedZooKeeper | undefined;
  readonly signal: AbortSignal;
}

interface ActiveFault {
  readonly since: number;
  readonly end: () => void;
}

type Connection = Pick<InstanceStatus, 'connection' | 'session' | 'confirmedAt'>;

/** A slot for one instance, which may die and be started again, and the faults that the page causes on it. */
export class Slot {
  instance?: Instance;
  life: InstanceStatus['life'] = 'dead';
  connection: Connection = {};
  private diedAt?: number;
  private readonly active = new Map<Fault, ActiveFault>();

  private constructor(
    readonly number: number,
    private readonly link: NetworkLink,
    private readonly context: SlotContext,
  ) {
    context.store.onEvent((event) => {
      if (event.type !== 'connection' || event.instance !== number) return;
      const { state, session } = event;
      this.connection = { ...this.connection, connection: state, session };
      // The instance has a session again.
      if (state === 'CONNECTED') this.end('expire');
    });
  }

  static async create(number: number, zookeeper: string, context: SlotContext): Promise<Slot> {
    return new Slot(number, await NetworkLink.to(zookeeper), context);
  }

  get faults(): Fault[] {
    return [...this.active.keys()];
  }

  /** Whether it can be expected to answer. */
  get healthy(): boolean {
    return this.life === 'alive' && this.active.size === 0;
  }

  /** Since when ZooKeeper receives nothing from the instance. */
  get silentSince(): number | undefined {
    if (this.life === 'dead') return this.diedAt;
    const since = (['pause', 'cut'] as const).flatMap((name) => this.active.get(name)?.since ?? []);
    return since.length > 0 ? Math.min(...since) : undefined;
  }

  async start(settings: ShopSettings): Promise<void> {
    if (this.life !== 'dead') throw new ConflictException(`instance ${this.number} is not dead`);
    const { signal, reports, store } = this.context;
    this.life = 'starting';
    this.connection = {};
    const startedAt = store.now();
    // The lock of the dead process is not held by the new one.
    reports.holders.forget(this.number);
    try {
      this.instance = await Instance.start(
        { ...settings, zookeeper: this.link.connectString },
        {
          signal,
          onReport: (report) => {
            const { confirmedAt } = report;
            if (confirmedAt !== undefined) {
              this.connection = { ...this.connection, confirmedAt: store.timeOf(confirmedAt) };
            }
            reports.read(this.number, report);
          },
        },
      );
    } catch (cause) {
      this.life = 'dead';
      const { message } = cause as Error;
      throw new ServiceUnavailableException(
        `instance ${this.number} did not start: ${message}; try again when ZooKeeper and the database answer`,
        { cause },
      );
    }
    this.instance.onDeath(() => this.died());
    this.life = 'alive';
    // It has reported its first connection already.
    store.add({ type: 'started', instance: this.number, pid: this.instance.pid }, startedAt);
    this.end('kill');
  }

  kill(): void {
    const instance = this.living();
    this.begin('kill', () => undefined);
    instance.kill();
  }

  pause(seconds: number): void {
    if (!CAN_PAUSE) {
      throw new NotImplementedException('a process cannot be paused on Windows: it has no SIGSTOP');
    }
    const { pid } = this.living();
    this.refuseTwice('pause', 'paused');
    const pause = new ProcessPause(pid, seconds);
    this.beginFor(seconds, 'pause', () => pause.end());
  }

  resume(): void {
    if (!this.end('pause')) throw new ConflictException(`instance ${this.number} is not paused`);
  }

  cut(seconds: number): void {
    this.living();
    this.refuseTwice('cut', 'cut off');
    this.link.cut();
    this.beginFor(seconds, 'cut', () => this.link.heal());
  }

  heal(): void {
    if (!this.end('cut')) throw new ConflictException(`instance ${this.number} is not cut off`);
  }

  async expire(): Promise<void> {
    this.living();
    const { server } = this.context;
    const { session } = this.connection;
    if (!server) {
      throw new ConflictException('only sessions of the embedded ZooKeeper can be expired');
    }
    if (!session) throw new ConflictException(`instance ${this.number} has no session`);
    this.refuseTwice('expire', 'without a session');
    this.begin('expire', () => undefined);
    await server.expireSession(session);
  }

  /** Ends the faults that a running instance has. */
  endFaults(): void {
    for (const fault of ['pause', 'cut', 'expire'] as const) this.end(fault);
  }

  async stop(): Promise<void> {
    // A stopped process cannot shut down.
    this.endFaults();
    await this.instance?.stop();
    this.link.close();
  }

  private died(): void {
    this.life = 'dead';
    this.diedAt = this.context.store.now();
    this.connection = { confirmedAt: this.connection.confirmedAt };
    this.context.store.add({ type: 'died', instance: this.number });
    this.endFaults();
  }

  private living(): Instance {
    if (this.life !== 'alive' || this.active.has('kill')) {
      throw new ConflictException(`instance ${this.number} is not alive`);
    }
    return this.instance!;
  }

  private refuseTwice(fault: Fault, state: string): void {
    if (this.active.has(fault)) {
      throw new ConflictException(`instance ${this.number} is ${state} already`);
    }
  }

  private beginFor(seconds: number, fault: Fault, end: () => void): void {
    const timer = setTimeout(() => this.end(fault), seconds * 1000);
    this.begin(fault, () => {
      clearTimeout(timer);
      end();
    });
  }

  private begin(fault: Fault, end: () => void): void {
    this.active.set(fault, { since: this.context.store.now(), end });
    this.context.store.add({ type: 'fault', instance: this.number, fault });
  }

  /** Returns false if the fault is not active. */
  private end(fault: Fault): boolean {
    const active = this.active.get(fault);
    if (!active) return false;
    this.active.delete(fault);
    active.end();
    this.context.store.add({ type: 'fault-ended', instance: this.number, fault });
    return true;
  }
}
