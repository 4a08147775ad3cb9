// One replica.
import { Injectable, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { CronExpression, ScheduleModule } from '@nestjs/schedule';
import { ZkModule } from 'nestjs-zookeeper';
import { CronOnLeader } from 'nestjs-zookeeper/schedule';

@Injectable()
export class Reports {
  @CronOnLeader(CronExpression.EVERY_SECOND, { name: 'report', missed: 'once' })
  async write(tick: Date): Promise<void> {
    console.log(`${clock(new Date())} process ${process.pid}: report of ${clock(tick)}`);
  }
}

const clock = (time: Date) => time.toISOString().slice(11, 19);

@Module({
  imports: [
    ScheduleModule.forRoot(),
    ZkModule.forRoot({
      connectString: process.env.ZK_CONNECT_STRING,
      namespace: 'cron-example',
      // Short, so that the next leader comes soon. In production take 10 s or more.
      sessionTimeout: 2_000,
    }),
  ],
  providers: [Reports],
})
class AppModule {}

const app = await NestFactory.createApplicationContext(AppModule, { logger: ['error', 'warn'] });
app.enableShutdownHooks();
// start.ts has ended.
process.on('disconnect', () => process.kill(process.pid, 'SIGTERM'));
