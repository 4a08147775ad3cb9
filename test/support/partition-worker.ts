import {
  type Partition,
  Partitioner,
  type PartitionerOptions,
} from 'nestjs-zookeeper/coordination/recipes';
import type { ZkClient } from 'nestjs-zookeeper/recipes';

/** The work on the partitions of one group, by all members of a test. */
export class PartitionLedger {
  readonly owners = new Map<number, PartitionWorker>();
  /** How often a partition got an owner while another one worked on it. */
  doubleOwners = 0;
  /** How often a token was not higher than the last one of its partition. */
  lowTokens = 0;
  readonly #tokens = new Map<number, bigint>();

  begin(worker: PartitionWorker, { index, fencingToken }: Partition): void {
    if (this.owners.has(index)) this.doubleOwners++;
    if (fencingToken <= (this.#tokens.get(index) ?? 0n)) this.lowTokens++;
    this.owners.set(index, worker);
    this.#tokens.set(index, fencingToken);
  }

  end(worker: PartitionWorker, { index }: Partition): void {
    if (this.owners.get(index) === worker) this.owners.delete(index);
  }

  /** The number of partitions that each of the workers works on. */
  counts(workers: readonly PartitionWorker[]): number[] {
    const owners = [...this.owners.values()];
    return workers.map((worker) => owners.filter((owner) => owner === worker).length);
  }
}

/** A member whose handler ends when the signal of its partition aborts. */
export class PartitionWorker {
  readonly partitioner: Partitioner;
  readonly errors: unknown[] = [];
  /** The partitions whose handler was called, in order. */
  readonly begun: Partition[] = [];

  constructor(
    client: ZkClient,
    path: string,
    readonly ledger: PartitionLedger,
    options: Partial<PartitionerOptions> = {},
  ) {
    const handle = async (partition: Partition) => {
      this.begun.push(partition);
      ledger.begin(this, partition);
      await new Promise<void>((resolve) => {
        if (partition.signal.aborted) resolve();
        partition.signal.addEventListener('abort', () => resolve());
      });
      ledger.end(this, partition);
    };
    this.partitioner = new Partitioner(client, path, handle, {
      partitions: 8,
      rebalanceDelay: 20,
      onError: (error) => this.errors.push(error),
      ...options,
    });
    this.partitioner.start();
  }
}
