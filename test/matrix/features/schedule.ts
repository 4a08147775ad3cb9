import assert from 'node:assert/strict';
import { Inject, Injectable } from '@nestjs/common';
import { Cron, CronExpression, Interval, ScheduleModule } from '@nestjs/schedule';
import { DistributedLock, LeaderOnly } from 'nestjs-zookeeper';
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
const ran: Record<'locked' | 'ledByCron' | 'ledByInterval', string[]> = {
  locked: [],
  ledByCron: [],
  ledByInterval: [],
};

@Injectable()
class Jobs {
  constructor(@Inject(INSTANCE) private readonly instance: string) {}

  @Interval(20)
  @DistributedLock('job')
  async locked() {
    ran.locked.push(this.instance);
    await shop.sell();
  }

  @Cron(CronExpression.EVERY_SECOND)
  @LeaderOnly(ELECTION)
  async ledByCron() {
    ran.ledByCron.push(this.instance);
  }

  @LeaderOnly(ELECTION)
  @Interval(20)
  async ledByInterval() {
    ran.ledByInterval.push(this.instance);
  }
}

export const check: Check = (platform) =>
  withInstances(
    platform,
    { imports: [ScheduleModule.forRoot()], providers: [Jobs] },
    listenOnAnyPort,
    async () => {
      await until(() => ran.locked.includes('one') && ran.locked.includes('other'));
      await until(() => ran.ledByCron.length >= 2 && ran.ledByInterval.length >= 10);
      assert.equal(shop.most, 1);
      assert.deepEqual([...new Set([...ran.ledByCron, ...ran.ledByInterval])], ['one']);
    },
  );
