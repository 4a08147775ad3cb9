import type { World } from 'nestjs-zookeeper/testing';
import type { EnsembleStatus } from '../live/events.js';
import type { EventLog } from './event-log.js';
import { FAULT_DURATION } from './simulated-shop.js';

/** Milliseconds without an answer after which the ensemble counts as silent, as on the server of the page. */
const SILENT_AFTER = 1_000;

/** The servers of the simulation, which the visitor can pause. */
export class SimulatedZookeeper {
  #pausedAt: number | undefined;
  #isSilent = false;

  constructor(
    private readonly world: World,
    private readonly log: EventLog,
  ) {}

  /** Begins or ends a pause. Does nothing if it cannot begin or end now. */
  act(action: 'pause' | 'resume'): void {
    const { world, log } = this;
    const isPaused = this.#pausedAt !== undefined;
    if (isPaused === (action === 'pause')) return;
    for (const server of world.servers) server[action]();
    if (isPaused) {
      this.#pausedAt = undefined;
      log.add({ type: 'fault-ended', fault: 'pause' });
      if (this.#isSilent) log.add({ type: 'ensemble', answers: true });
      this.#isSilent = false;
      return;
    }
    const pausedAt = (this.#pausedAt = log.now);
    log.add({ type: 'fault', fault: 'pause' });
    const after = (ms: number, fn: () => void) =>
      world.sleep(ms).then(() => {
        if (this.#pausedAt === pausedAt) fn();
      });
    void after(SILENT_AFTER, () => {
      this.#isSilent = true;
      log.add({ type: 'ensemble', answers: false });
    });
    void after(FAULT_DURATION, () => this.act('resume'));
  }

  status(): EnsembleStatus & { readonly confirmedAt: number } {
    const confirmedAt = this.#pausedAt ?? this.log.now;
    return { answers: !this.#isSilent, confirmedAt, isPaused: this.#pausedAt !== undefined };
  }
}
