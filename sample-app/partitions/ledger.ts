import type { WorkerReport } from './worker.js';

/** The work of one owner on a partition. Times are milliseconds on the monotonic clock of the machine. */
interface Work {
  readonly process: string;
  readonly partition: number;
  readonly token: bigint;
  readonly from: number;
  /** Infinity while the owner works. */
  until: number;
}

/** All work that the processes have reported. */
export class Ledger {
  private readonly works = new Map<string, Work>();
  /** How often a partition was given to an owner. */
  assignments = 0;

  add(process: string, { kind, work, partition, token, at }: WorkerReport): void {
    if (kind === 'begin') {
      this.assignments++;
      this.works.set(work, { process, partition, token: BigInt(token), from: at, until: Infinity });
    } else {
      this.works.get(work)!.until = at;
    }
  }

  /** Ends the work of a process that has ended. */
  ended(process: string, at: number): void {
    for (const work of this.works.values()) {
      if (work.process === process && work.until === Infinity) work.until = at;
    }
  }

  /** How many partitions a process works on now. */
  ownedBy(process: string): number {
    let owned = 0;
    for (const work of this.works.values()) {
      if (work.process === process && work.until === Infinity) owned++;
    }
    return owned;
  }

  /** Describes each owner that began before the last one had ended, or without a higher token. */
  violations(): string[] {
    const found: string[] = [];
    const last = new Map<number, Work>();
    for (const work of [...this.works.values()].sort((a, b) => a.from - b.from)) {
      const before = last.get(work.partition);
      last.set(work.partition, work);
      if (!before) continue;
      const both = `partition ${work.partition}: ${before.process}, then ${work.process}`;
      if (work.from < before.until) found.push(`${both}: two owners at a time`);
      if (work.token <= before.token) found.push(`${both}: the token did not rise`);
    }
    return found;
  }
}
