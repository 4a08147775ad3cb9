// decorator.mjs <native|wire> <connect string>: the cost of a decorated call that re-enters a lock, so that the
// lock itself costs nothing, beside the same call by the service.
import 'reflect-metadata';
import { Injectable, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { DistributedLock, LockService, ZkModule } from 'nestjs-zookeeper';
import { now } from '../clock.js';
import { Samples } from './samples.mjs';
import { serve } from './serve.mjs';

const KEY = 'decorated';
/** Calls between two readings of the clock, because one call is shorter than its precision. */
const BATCH = 100;

const transport = process.argv[2] === 'native' ? 'native' : 'wire';
const [, , , connectString] = process.argv;

class Shop {
  async decorated() {}

  async plain() {}
}
Injectable()(Shop);
const { prototype } = Shop;
const descriptor = { ...Object.getOwnPropertyDescriptor(prototype, 'decorated') };
DistributedLock(KEY)(prototype, 'decorated', descriptor);
Object.defineProperty(prototype, 'decorated', descriptor);

class AppModule {}
Module({ imports: [ZkModule.forRoot({ connectString, transport })], providers: [Shop] })(AppModule);

const app = await NestFactory.createApplicationContext(AppModule, { logger: false });
const locks = app.get(LockService);
const shop = app.get(Shop);

serve({
  /** Alternates between both, a batch at a time. */
  run: ({ from, until }) =>
    locks.withLock(KEY, async () => {
      const decorated = new Samples();
      const service = new Samples();
      while (now() < Number(until)) {
        const starts = now();
        for (let call = 0; call < BATCH; call++) await shop.decorated();
        const between = now();
        for (let call = 0; call < BATCH; call++) await locks.withLock(KEY, () => shop.plain());
        const ends = now();
        if (starts < Number(from)) continue;
        decorated.add((between - starts) / BATCH);
        service.add((ends - between) / BATCH);
      }
      const [p50, withLock] = [decorated, service].map((samples) => samples.percentile(0.5));
      return {
        p50,
        p99: decorated.percentile(0.99),
        p999: decorated.percentile(0.999),
        withLock,
        overhead: p50 - withLock,
      };
    }),
});
