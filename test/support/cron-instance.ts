/*
 * An instance of an application with a job for leaders alone: a process of its own, that tells its
 * parent of each second its clock ticked in, and whether it ran the job then.
 */
import 'reflect-metadata';
import { Injectable, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Cron, ScheduleModule } from '@nestjs/schedule';
import { currentTerm, LeaderOnly, ZkModule, type ZkModuleOptions } from 'nestjs-zookeeper';

export interface Tick {
  /** Since 1970. A cron job never fires before its second, but late on a busy machine. */
  readonly second: number;
  /** Of the term that it ran in; undefined where it did not run. */
  readonly token: string | undefined;
}

function tell(token?: bigint): void {
  const tick: Tick = { second: Math.floor(Date.now() / 1000), token: token?.toString() };
  process.send!(tick);
}

@Injectable()
export class Jobs {
  @Cron('* * * * * *')
  @LeaderOnly({ election: 'every-second', otherwise: () => tell() })
  async everySecond(): Promise<void> {
    tell(currentTerm()!.fencingToken);
  }
}

@Module({
  imports: [
    ZkModule.forRoot(JSON.parse(process.env.ZK_OPTIONS!) as ZkModuleOptions),
    ScheduleModule.forRoot(),
  ],
  providers: [Jobs],
})
class CronInstance {}

process.on('disconnect', () => process.exit());
await NestFactory.createApplicationContext(CronInstance, { logger: ['error', 'fatal'] });
