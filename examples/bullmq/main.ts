// One consumer.
import { BullModule, Processor, WorkerHost } from '@nestjs/bullmq';
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import type { Job } from 'bullmq';
import { DistributedLock, ZkModule } from 'nestjs-zookeeper';

type Order = Job<{ customer: string }>;

@Processor('orders', { concurrency: 2 })
export class OrdersProcessor extends WorkerHost {
  @DistributedLock((job: Order) => `customer-${job.data.customer}`, { wait: 10_000 })
  async process(job: Order): Promise<void> {
    console.log(`process ${process.pid} begins order ${job.id} of ${job.data.customer}`);
    await new Promise((resolve) => setTimeout(resolve, 200));
    console.log(`process ${process.pid} ends order ${job.id} of ${job.data.customer}`);
  }
}

@Module({
  imports: [
    ZkModule.forRoot({
      connectString: process.env.ZK_CONNECT_STRING,
      namespace: 'bullmq-example',
    }),
    BullModule.forRoot({ connection: { url: process.env.REDIS_URL ?? 'redis://localhost:6379' } }),
    BullModule.registerQueue({ name: 'orders' }),
  ],
  providers: [OrdersProcessor],
})
class AppModule {}

const app = await NestFactory.createApplicationContext(AppModule, { logger: ['error', 'warn'] });
app.enableShutdownHooks();
// start.ts has ended.
process.on('disconnect', () => process.kill(process.pid, 'SIGTERM'));
process.send?.('ready');
