import type { FaultKind, PlannedFault } from './fault-plan.js';
import { notificationTime, recoveryTime, type Setting } from './setting.js';

/** Faults that break a connection. The client reconnects at once, so a single fault of these ends no session. */
const CONNECTION_FAULTS: ReadonlySet<FaultKind> = new Set<FaultKind>([
  'reset',
  'lose create reply',
  'lose delete reply',
  'lose listing reply',
  'lose sync reply',
]);

/** Faults that end no session, however many there are. */
const CLOCK_STEPS: ReadonlySet<FaultKind> = new Set<FaultKind>([
  'step clock forward',
  'step clock back',
]);

const PAUSES: ReadonlySet<FaultKind> = new Set<FaultKind>([
  'pause',
  'block',
  'sleep',
  'sleep of a holder',
  'pause, then cut requests',
]);

/** Faults in which another client ends a lease. The holder is notified later. */
const REMOTE_LOSSES: ReadonlySet<FaultKind> = new Set<FaultKind>(['expire session', 'delete node']);

/**
 * Returns the milliseconds after which a holder has noticed that its node was deleted. A holder starts to watch its
 * node some time after the grant.
 */
export function deletionDetectionTime(setting: Setting): number {
  return 50 + 3 * notificationTime(setting) + 20;
}

/** The times at which the faults of a run affect its processes. All times are virtual milliseconds. */
export class FaultWindows {
  constructor(
    readonly faults: readonly PlannedFault[],
    private readonly setting: Setting,
  ) {}

  /** When the last fault ends; 0 without faults. */
  get lastEnd(): number {
    return Math.max(0, ...this.faults.map(({ until }) => until));
  }

  /** Returns whether no fault was active between two times or could still have an effect then. */
  isFaultFree(from: number, until: number): boolean {
    const recovery = recoveryTime(this.setting);
    return this.faults.every((fault) => fault.from > until || fault.until + recovery < from);
  }

  /** Returns whether a fault of the process or of the servers was active between two times. */
  affects(process: string, from: number, until: number): boolean {
    return this.#faultsOf(process).some((fault) => fault.from <= until && fault.until >= from);
  }

  /** Returns whether another client ended a lease of the process, and the process may not know that yet. */
  hasUnnoticedLoss(process: string, at: number): boolean {
    return this.faults.some(({ kind, target, from }) => {
      if (!REMOTE_LOSSES.has(kind) || target !== process || at < from) return false;
      const noticed =
        kind === 'delete node'
          ? this.deletionNoticed(process, from, at)
          : from + this.#longestSession;
      return at <= noticed;
    });
  }

  /**
   * Returns the time by which a process has noticed that its node was deleted, if no fault after `at` prevents it.
   *
   * While the replies to `sync` are lost, each connection breaks before the client can read. The client keeps its
   * session, because the server has accepted it, so the deletion is hidden for as long as this fault lasts.
   */
  deletionNoticed(process: string, deletion: number, at: number): number {
    const others = this.#faultsOf(process).filter(
      ({ kind }) => kind !== 'delete node' && kind !== 'lose sync reply',
    );
    let hiddenUntil = deletion;
    let detection = deletionDetectionTime(this.setting);
    const noticed = (until: number) => {
      const isDisturbed = others.some((fault) => fault.from <= until && fault.until >= hiddenUntil);
      return hiddenUntil + (isDisturbed ? this.#longestSession : detection);
    };
    for (const { kind, target, from, until } of this.faults) {
      if (kind !== 'lose sync reply' || target !== process) continue;
      if (until < hiddenUntil || from > noticed(from)) continue;
      hiddenUntil = until;
      detection = deletionDetectionTime(this.setting) + this.reconnectionTime(process);
    }
    return noticed(at);
  }

  /** Milliseconds after which a client that gets no reply has declared its session lost. */
  get #longestSession(): number {
    return 1.1 * this.setting.sessionTimeout;
  }

  /** Returns the milliseconds within which a client whose connections break is connected after the fault. */
  reconnectionTime(process: string): number {
    const { latency, lag, processes, sessionTimeout } = this.setting;
    const { clockRate } = processes.find(({ name }) => name === process)!;
    // The client pauses for at most a tenth of the session timeout between two attempts.
    return sessionTimeout / 10 / clockRate + 20 * latency[1] + lag[1];
  }

  /** Returns whether a fault that is not of the given kind affected the process between two times. */
  affectsExcept(kind: FaultKind, process: string, from: number, until: number): boolean {
    return this.#faultsOf(process).some(
      (fault) => fault.kind !== kind && fault.from <= until && fault.until >= from,
    );
  }

  /** Returns whether the faults before a time explain that the process lost its session then. */
  explainsSessionLoss(process: string, at: number): boolean {
    const { sessionTimeout, policy, server } = this.setting;
    const recent = this.#faultsOf(process).filter(
      ({ from, until }) => from <= at && until >= at - 2.5 * sessionTimeout,
    );
    // ClickHouse Keeper ends the session with its connection.
    if (policy === 'standard' || server === 'clickhouse-keeper') return recent.length > 0;
    const serious = recent.filter(({ kind }) => !CLOCK_STEPS.has(kind));
    return serious.length > 1 || serious.some(({ kind }) => !CONNECTION_FAULTS.has(kind));
  }

  /** Returns the faults in the format of the checker of the chaos command. */
  toCheckerFaults(): { kind: string; worker: string; from: number; until: number }[] {
    return this.faults.flatMap(({ kind, target: worker, from, until }) => {
      if (PAUSES.has(kind))
        return [{ kind: 'stop', worker, from, until: this.#runsFrom(worker, until) }];
      if (!REMOTE_LOSSES.has(kind)) return [];
      return [{ kind: 'expire', worker, from, until: this.#noticeableFrom(worker, from) }];
    });
  }

  /** Returns when a process runs again after the end of a pause: it may be paused again at that moment. */
  #runsFrom(process: string, end: number): number {
    const next = this.faults.find(
      ({ kind, target, from, until }) =>
        PAUSES.has(kind) && target === process && from <= end && until > end,
    );
    return next ? this.#runsFrom(process, next.until) : end;
  }

  /** Returns when a process can notice a loss: after the faults that follow it so soon that they hide it. */
  #noticeableFrom(process: string, loss: number): number {
    let time = loss;
    for (const { from, until } of this.#faultsOf(process).toSorted((a, b) => a.from - b.from)) {
      if (from <= time + deletionDetectionTime(this.setting)) time = Math.max(time, until);
    }
    return time;
  }

  /** Returns whether the process was paused or blocked at some time between two times. */
  wasPaused(process: string, from: number, until: number): boolean {
    return this.faults.some(
      (fault) =>
        PAUSES.has(fault.kind) &&
        fault.target === process &&
        fault.from <= until &&
        fault.until >= from,
    );
  }

  /** Returns the faults of the process and those of all servers. */
  #faultsOf(process: string): readonly PlannedFault[] {
    return this.faults.filter(({ target }) => target === process || target.startsWith('server'));
  }
}
