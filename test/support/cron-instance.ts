/*
 * An instance of an application with a `@LeaderOnly` cron job, as a process of its own. It sends
 * its parent a message for each second in which its clock ticked, with the fencing token if it ran
 * the job.
 */
import 'reflect-metadata';
import { Injectable, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Cron, ScheduleModule } from '@nestjs/schedule';
import { currentTerm, LeaderOnly, ZkModule, type ZkModuleOptions } from 'nestjs-zookeeper';

export interface Tick {
  /**
   * Seconds since 1970. A cron job never fires before its second, but fires late on a busy machine.
   */
  readonly second: number;
  /** The fencing token of the term in which the job ran; undefined if it did not run. */
  readonly token: string | undefined;
}

function sendToParent(token?: bigint): void {
  const tick: Tick = { second: Math.floor(Date.now() / 1000), token: token?.toString() };
  process.send!(tick);
}

@Injectable()
export class Jobs {
  @Cron('* * * * * *')
  @LeaderOnly({ election: 'every-second', otherwise: () => sendToParent() })
  async everySecond(): Promise<void> {
    sendToParent(currentTerm()!.fencingToken);
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
