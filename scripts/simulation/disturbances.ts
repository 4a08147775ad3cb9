import type { FaultKind } from './fault-plan.js';
import { noticeTime, recoveryTime, type Setting } from './setting.js';
import type { Fault } from './types.js';

/** Faults that end with the next connection, which is made at once: no session ends by one of them. */
const HARMLESS: ReadonlySet<FaultKind> = new Set<FaultKind>([
  'reset',
  'lose create reply',
  'lose delete reply',
  'lose listing reply',
  'lose sync reply',
]);

const PAUSES: ReadonlySet<FaultKind> = new Set<FaultKind>(['pause', 'block']);

/** Somebody else ends a lease, and its holder learns of it later. */
const UNNOTICED: ReadonlySet<FaultKind> = new Set<FaultKind>(['expire session', 'delete node']);

/** Milliseconds after which a holder has noticed that its node was deleted: it watches the node after a while. */
export function deletionNotice(setting: Setting): number {
  return 50 + 3 * noticeTime(setting) + 20;
}

/** What the checks make of the faults of a run. Times are virtual milliseconds. */
export class Disturbances {
  constructor(
    readonly faults: readonly (Fault & { kind: FaultKind })[],
    private readonly setting: Setting,
  ) {}

  /** When the last fault has ended. */
  get healed(): number {
    return Math.max(0, ...this.faults.map(({ until }) => until));
  }

  /** Whether no fault was in force or could still have an effect. */
  calm(from: number, until: number): boolean {
    const recovery = recoveryTime(this.setting);
    return this.faults.every((fault) => fault.from > until || fault.until + recovery < from);
  }

  /** Whether a fault of the process or of the servers was in force. */
  disturb(process: string, from: number, until: number): boolean {
    return this.#concerning(process).some((fault) => fault.from <= until && fault.until >= from);
  }

  /** Whether somebody else ended a lease of the process, and the process may not know it yet. */
  unnoticed(process: string, at: number): boolean {
    const { sessionTimeout } = this.setting;
    return this.faults.some(({ kind, target, from }) => {
      if (!UNNOTICED.has(kind) || target !== process || at < from) return false;
      const isDeletion = kind === 'delete node' && !this.others(process, from, at);
      return at <= from + (isDeletion ? deletionNotice(this.setting) : 1.1 * sessionTimeout);
    });
  }

  /** Whether a fault of another kind was in force for the process. */
  others(process: string, from: number, until: number, but: FaultKind = 'delete node'): boolean {
    return this.#concerning(process).some(
      (fault) => fault.kind !== but && fault.from <= until && fault.until >= from,
    );
  }

  /** Whether the loss of a session at a time has a reason. */
  explainsLoss(process: string, at: number): boolean {
    const { sessionTimeout, policy } = this.setting;
    const near = this.#concerning(process).filter(
      ({ from, until }) => from <= at && until >= at - 2.5 * sessionTimeout,
    );
    if (policy === 'standard') return near.length > 0;
    return near.length > 1 || near.some(({ kind }) => !HARMLESS.has(kind));
  }

  /** Faults as the checker of the chaos command knows them. */
  excuses(): { kind: string; worker: string; from: number; until: number }[] {
    return this.faults.flatMap(({ kind, target: worker, from, until }) => {
      if (PAUSES.has(kind)) return [{ kind: 'stop', worker, from, until }];
      return UNNOTICED.has(kind) ? [{ kind: 'expire', worker, from, until: from }] : [];
    });
  }

  /** Whether the process stood still at some time between the two. */
  paused(process: string, from: number, until: number): boolean {
    return this.faults.some(
      (fault) =>
        PAUSES.has(fault.kind) &&
        fault.target === process &&
        fault.from <= until &&
        fault.until >= from,
    );
  }

  #concerning(process: string): readonly (Fault & { kind: FaultKind })[] {
    return this.faults.filter(({ target }) => target === process || target.startsWith('server'));
  }
}
