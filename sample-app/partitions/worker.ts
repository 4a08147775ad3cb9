// One process of the demo of the partitions. It ends when its channel to the parent process closes.
import { randomUUID } from 'node:crypto';
import { Injectable, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ZkModule } from 'nestjs-zookeeper';
import { CoordinationModule, type Partition, Partitioned } from 'nestjs-zookeeper/coordination';

/** What a worker needs to know, in the environment variable `PARTITIONS_WORKER`. */
export interface WorkerSettings {
  readonly connectString: string;
  readonly namespace: string;
  readonly partitions: number;
  /** Milliseconds. */
  readonly sessionTimeout: number;
}

/** A message to the parent: the work on a partition begins or has ended. */
export interface WorkerReport {
  readonly kind: 'begin' | 'end';
  /** Identifies the work of this owner on the partition. */
  readonly work: string;
  readonly partition: number;
  /** The fencing token, which JSON cannot express as a bigint. */
  readonly token: string;
  /** Milliseconds on the monotonic clock of the machine, which all processes share. */
  readonly at: number;
}

const settings = JSON.parse(process.env.PARTITIONS_WORKER!) as WorkerSettings;
const { connectString, namespace, partitions, sessionTimeout } = settings;

function report(kind: WorkerReport['kind'], work: string, { index, fencingToken }: Partition) {
  const at = Number(process.hrtime.bigint()) / 1e6;
  const message = { kind, work, partition: index, token: String(fencingToken), at };
  // The parent may be gone before this process has noticed it: the message fails, and the worker ends quietly.
  if (process.connected) process.send!(message satisfies WorkerReport, () => undefined);
}

@Injectable()
class Worker {
  @Partitioned('work', { partitions, rebalanceDelay: 500 })
  async run(partition: Partition): Promise<void> {
    const { signal } = partition;
    const work = randomUUID();
    report('begin', work, partition);
    // The work of a real application goes here, such as the jobs whose key belongs to this partition.
    await new Promise<void>((resolve) => {
      if (signal.aborted) resolve();
      signal.addEventListener('abort', () => resolve(), { once: true });
    });
    report('end', work, partition);
  }
}

@Module({
  imports: [
    ZkModule.forRoot({ connectString, namespace, sessionTimeout }),
    CoordinationModule.forRoot(),
  ],
  providers: [Worker],
})
class WorkerModule {}

// A terminal signals the parent and its children. The parent stops the children.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => undefined);
const app = await NestFactory.createApplicationContext(WorkerModule, {
  logger: ['fatal', 'error', 'warn'],
});
const close = () => void app.close().finally(() => process.exit());
if (!process.connected) close();
process.once('disconnect', close);
