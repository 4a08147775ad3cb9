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
import { FaultSet } from './fault-set.js';
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

type Connection = Pick<InstanceStatus, 'connection' | 'session' | 'confirmedAt'>;

/** A slot for one instance, which may die and be started again, and the faults that the page causes on it. */
export class Slot {
  instance?: Instance;
  life: InstanceStatus['life'] = 'dead';
  connection: Connection = {};
  readonly faults: FaultSet;
  private diedAt?: number;

  private constructor(
    readonly number: number,
    readonly link: NetworkLink,
    private readonly context: SlotContext,
  ) {
    this.faults = new FaultSet(number, context.store);
    context.store.onEvent((event) => {
      if (event.type !== 'connection' || event.instance !== number) return;
      const { state, session } = event;
      this.connection = { ...this.connection, connection: state, session };
      // The instance has a session again. In a later turn, so that all listeners receive the events in their order.
      if (state === 'CONNECTED') queueMicrotask(() => this.faults.end('expire'));
    });
  }

  static async create(number: number, zookeeper: string, context: SlotContext): Promise<Slot> {
    return new Slot(number, await NetworkLink.to(zookeeper), context);
  }

  /** Whether it can be expected to answer. */
  get healthy(): boolean {
    return this.life === 'alive' && this.faults.names.length === 0;
  }

  /** Since when ZooKeeper receives nothing from the instance. */
  get silentSince(): number | undefined {
    if (this.life === 'dead') return this.diedAt;
    const since = (['pause', 'cut'] as const).flatMap((fault) => this.faults.since(fault) ?? []);
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
    // The instance reports its connection before this call returns, so the event gets the time of the start.
    store.add({ type: 'started', instance: this.number, pid: this.instance.pid }, startedAt);
    this.faults.end('kill');
  }

  kill(): void {
    const instance = this.requireAlive();
    this.faults.begin('kill');
    instance.kill();
  }

  pause(seconds: number): void {
    if (!CAN_PAUSE) {
      throw new NotImplementedException('a process cannot be paused on Windows: it has no SIGSTOP');
    }
    const { pid } = this.requireAlive();
    this.refuseTwice('pause', 'paused');
    const pause = new ProcessPause(pid, seconds);
    this.faults.begin('pause', { seconds, undo: () => pause.end() });
  }

  resume(): void {
    if (!this.faults.end('pause')) {
      throw new ConflictException(`instance ${this.number} is not paused`);
    }
  }

  cut(seconds: number): void {
    this.requireAlive();
    this.refuseTwice('cut', 'cut off');
    this.faults.begin('cut', { seconds, undo: this.link.cut() });
  }

  heal(): void {
    if (!this.faults.end('cut')) {
      throw new ConflictException(`instance ${this.number} is not cut off`);
    }
  }

  async expire(): Promise<void> {
    this.requireAlive();
    const { server } = this.context;
    const { session } = this.connection;
    if (!server) {
      throw new ConflictException('only sessions of the embedded ZooKeeper can be expired');
    }
    if (!session) throw new ConflictException(`instance ${this.number} has no session`);
    this.refuseTwice('expire', 'without a session');
    const since = this.context.store.now();
    try {
      await server.expireSession(session);
    } catch (cause) {
      throw new ConflictException(
        `the session of instance ${this.number} has ended already; try again when it has a new one`,
        { cause },
      );
    }
    // The instance may have died, or have a new session, meanwhile.
    if (this.connection.session === session) this.faults.begin('expire', { since });
  }

  async stop(): Promise<void> {
    // A stopped process cannot shut down.
    this.faults.endAll();
    await this.instance?.stop();
    this.link.close();
  }

  private died(): void {
    this.life = 'dead';
    this.diedAt = this.context.store.now();
    this.connection = { confirmedAt: this.connection.confirmedAt };
    this.context.store.add({ type: 'died', instance: this.number });
    this.faults.clear();
  }

  private requireAlive(): Instance {
    if (this.life !== 'alive' || this.faults.has('kill')) {
      throw new ConflictException(`instance ${this.number} is not alive`);
    }
    return this.instance!;
  }

  private refuseTwice(fault: Fault, state: string): void {
    if (this.faults.has(fault)) {
      throw new ConflictException(`instance ${this.number} is ${state} already`);
    }
  }
}
