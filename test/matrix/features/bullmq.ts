import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import { BullModule, getQueueToken, Processor, WorkerHost } from '@nestjs/bullmq';
import { Inject, Injectable } from '@nestjs/common';
import type { Job, Queue } from 'bullmq';
import { DistributedLock, LeaderService, OnElected, OnResigned } from 'nestjs-zookeeper';
import {
  type Check,
  ELECTION,
  INSTANCE,
  listenOnAnyPort,
  until,
  withInstances,
} from '../support/instances.js';
import { Shop } from '../support/shop.js';

const shop = new Shop();
const reportedBy: string[] = [];

/** Jobs of one customer run one at a time, on all instances together. */
@Processor('orders', { concurrency: 10 })
class OrdersProcessor extends WorkerHost {
  @DistributedLock((job: Job<{ customer: number }>) => `customer-${job.data.customer}`, {
    wait: 10_000,
  })
  async process(_job: Job<{ customer: number }>) {
    return shop.sell();
  }
}

/** A worker that takes jobs only while its instance leads. */
@Injectable()
@Processor('reports', { autorun: false })
class ReportsProcessor extends WorkerHost {
  constructor(@Inject(INSTANCE) private readonly instance: string) {
    super();
  }

  @OnElected(ELECTION)
  async start() {
    if (this.worker.isRunning()) this.worker.resume();
    else void this.worker.run();
  }

  @OnResigned(ELECTION)
  async stop() {
    await this.worker.pause(true);
  }

  async process(_job: Job) {
    reportedBy.push(this.instance);
  }
}

export const check: Check = async (platform) => {
  const port = await freePort();
  const redis = spawn('redis-server', [
    '--port',
    String(port),
    '--save',
    '',
    '--loglevel',
    'warning',
  ]);
  try {
    await Promise.race([
      untilListening(port),
      once(redis, 'error').then(([error]) => Promise.reject(error)),
    ]);
    const imports = [
      BullModule.forRoot({ connection: { host: '127.0.0.1', port } }),
      BullModule.registerQueue({ name: 'orders' }, { name: 'reports' }),
    ];
    const metadata = { imports, providers: [OrdersProcessor, ReportsProcessor] };
    await withInstances(platform, metadata, listenOnAnyPort, async ({ one, other }) => {
      const orders = one.get<Queue>(getQueueToken('orders'));
      await orders.addBulk(
        Array.from({ length: 20 }, () => ({ name: 'sell', data: { customer: 7 } })),
      );
      await until(() => shop.sold === 20);
      assert.equal(shop.most, 1);

      const reports = other.get<Queue>(getQueueToken('reports'));
      await reports.upsertJobScheduler('report', { every: 100 });
      await until(() => reportedBy.length >= 3);
      assert.deepEqual([...new Set(reportedBy)], ['one']);
      await one.get(LeaderService).resign(ELECTION);
      await until(() => reportedBy.at(-1) === 'other');
      await reports.removeJobScheduler('report');
    });
  } finally {
    if (redis.exitCode === null && redis.kill()) await once(redis, 'exit');
  }
};

async function freePort(): Promise<number> {
  const server = createServer();
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

async function untilListening(port: number): Promise<void> {
  await until(async () => {
    const socket = connect(port, '127.0.0.1');
    return Promise.race([
      once(socket, 'connect').then(() => true),
      new Promise<boolean>((resolve) => socket.once('error', () => resolve(false))),
    ]).finally(() => socket.destroy());
  });
}
