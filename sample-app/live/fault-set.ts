import type { EventStore } from './event-store.js';
import type { Fault } from './events.js';

interface ActiveFault {
  readonly since: number;
  readonly undo: () => void;
}

interface FaultOptions {
  /** Ends the effect of the fault. */
  readonly undo?: () => void;
  /** After this time the fault ends by itself. */
  readonly seconds?: number;
  /** By the clock of the event store; by default now. */
  readonly since?: number;
}

/** The active faults of one instance, or of ZooKeeper. The start and the end of each fault are events. */
export class FaultSet {
  private readonly active = new Map<Fault, ActiveFault>();

  constructor(
    /** The number of the instance; undefined for ZooKeeper. */
    private readonly instance: number | undefined,
    private readonly store: EventStore,
  ) {}

  get names(): Fault[] {
    return [...this.active.keys()];
  }

  has(fault: Fault): boolean {
    return this.active.has(fault);
  }

  since(fault: Fault): number | undefined {
    return this.active.get(fault)?.since;
  }

  begin(
    fault: Fault,
    { undo = () => undefined, seconds, since = this.store.now() }: FaultOptions = {},
  ): void {
    const timer =
      seconds === undefined ? undefined : setTimeout(() => this.end(fault), seconds * 1000);
    this.active.set(fault, {
      since,
      undo: () => {
        clearTimeout(timer);
        undo();
      },
    });
    this.store.add({ type: 'fault', instance: this.instance, fault }, since);
  }

  /** Returns false if the fault is not active. */
  end(fault: Fault): boolean {
    const isActive = this.undo(fault);
    if (isActive) this.store.add({ type: 'fault-ended', instance: this.instance, fault });
    return isActive;
  }

  /** Ends the faults that a running process can have. */
  endAll(): void {
    for (const fault of this.ofRunning()) this.end(fault);
  }

  /** As `endAll`, but without events: the event `died` implies the end of each fault. */
  clear(): void {
    for (const fault of this.ofRunning()) this.undo(fault);
  }

  private ofRunning(): Fault[] {
    return this.names.filter((fault) => fault !== 'kill');
  }

  private undo(fault: Fault): boolean {
    const active = this.active.get(fault);
    this.active.delete(fault);
    active?.undo();
    return active !== undefined;
  }
}
