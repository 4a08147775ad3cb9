import { setTimeout as delay } from 'node:timers/promises';
import { Injectable, Module } from '@nestjs/common';
import { LazyModuleLoader } from '@nestjs/core';
import { expect } from 'vitest';
import { LeaderOnly, LeaderService, OnElected, OnResigned } from 'nestjs-zookeeper';
import {
  CoordinationModule,
  CoordinationService,
  Partitioned,
  PartitionService,
  QueueConsumer,
} from 'nestjs-zookeeper/coordination';
import { eventually } from '../../support/eventually.js';
import { useApps } from '../../support/nest-apps.js';
import { useServer } from '../../support/servers.js';
import { it } from '../../support/virtual-time.js';

const apps = useApps(useServer());
const calls: string[] = [];

@Injectable()
class Background {
  @QueueConsumer('mails')
  async consume(): Promise<void> {
    calls.push('consumer');
  }

  @Partitioned('orders', { partitions: 1, rebalanceDelay: 0 })
  async own(): Promise<void> {
    calls.push('partition');
  }

  @LeaderOnly('job')
  async lead(): Promise<string> {
    return 'led';
  }

  @OnElected('job')
  async elected(): Promise<void> {
    calls.push('elected');
  }

  @OnResigned('job')
  async resigned(): Promise<void> {
    calls.push('resigned');
  }
}

@Module({ providers: [Background] })
class LaterModule {}

it('the background methods of a module that is loaded later are not called, and its @LeaderOnly method joins at its first call', async () => {
  const app = await apps.start({ imports: [CoordinationModule.forRoot()] });
  const later = await app.get(LazyModuleLoader).load(() => LaterModule);
  const background = later.get(Background);
  const queue = app.get(CoordinationService).queue<string>('mails');
  await queue.put('hello');
  await delay(5_000);
  const leaders = app.get(LeaderService);
  expect(await leaders.participants('job')).toEqual([]);

  await eventually(async () => expect(await background.lead()).toBe('led'));
  await leaders.resign('job');
  expect(calls).toEqual([]);

  queue.consume(() => background.consume());
  app
    .get(PartitionService)
    .join('orders', { partitions: 1, rebalanceDelay: 0 }, () => background.own());
  await eventually(() => expect(calls.toSorted()).toEqual(['consumer', 'partition']));
});
