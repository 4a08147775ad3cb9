import assert from 'node:assert/strict';
import { Injectable } from '@nestjs/common';
import { getZkClientToken, type ZkClient } from 'nestjs-zookeeper';
import {
  CoordinationModule,
  CoordinationService,
  getZkValueToken,
  type LiveValue,
  ZkValue,
} from 'nestjs-zookeeper/coordination';
import { type Check, listenOnAnyPort, until, withInstances } from '../support/instances.js';

@Injectable()
class Throttle {
  @ZkValue('config/period', { parse: Number, default: 100 })
  readonly period!: LiveValue<number>;

  /** The value at the time of the construction. */
  readonly first: number;

  constructor(
    @ZkValue('config/period', { parse: Number, default: 100 }) period: LiveValue<number>,
  ) {
    this.first = period.value;
  }
}

export const check: Check = (platform) =>
  withInstances(
    platform,
    {
      imports: [CoordinationModule.forRoot()],
      providers: [
        Throttle,
        {
          provide: 'rate',
          inject: [getZkValueToken('config/period')],
          useFactory: (period: LiveValue<number>) => 1000 / period.value,
        },
      ],
    },
    listenOnAnyPort,
    async ({ one, other }) => {
      const values = [one, other].map((app) => app.get(Throttle).period);
      assert.equal(one.get(Throttle).first, 100);
      assert.equal(one.get('rate'), 10);
      const client: ZkClient = one.get(getZkClientToken());
      await client.ensureContainers(`${client.namespace}/config`);
      await client.create(`${client.namespace}/config/period`, '50');
      await until(() => values.every(({ value }) => value === 50));
      const cache = other.get(CoordinationService).cache('config');
      await cache.initialized();
      assert.deepEqual(cache.children(), ['period']);
    },
  );
