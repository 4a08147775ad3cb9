// What the examples of the pages leave out: the imports and variables of the page's first example, and the
// class around a method.
import type * as common from '@nestjs/common';
import type { TestingModule } from '@nestjs/testing';
import type * as schedule from '@nestjs/schedule';
import type * as fs from 'node:fs';
import type { MeterProvider, TracerProvider } from '@opentelemetry/api';
import type * as zk from 'nestjs-zookeeper';
import type * as opentelemetry from 'nestjs-zookeeper/opentelemetry';
import type * as recipes from 'nestjs-zookeeper/recipes';
import type { TestZooKeeper } from 'nestjs-zookeeper/testing';
import type { Repository } from 'typeorm';
import type * as vitest from 'vitest';

declare global {
  const Controller: typeof common.Controller;
  const Get: typeof common.Get;
  const Param: typeof common.Param;
  const Post: typeof common.Post;
  const Cron: typeof schedule.Cron;
  const CronExpression: typeof schedule.CronExpression;
  const readFileSync: typeof fs.readFileSync;
  const expect: typeof vitest.expect;
  const it: typeof vitest.it;

  const currentLease: typeof zk.currentLease;
  const currentTerm: typeof zk.currentTerm;
  const DistributedLock: typeof zk.DistributedLock;
  const LeaderOnly: typeof zk.LeaderOnly;
  const Mutex: typeof recipes.Mutex;
  const ReadWriteLock: typeof recipes.ReadWriteLock;
  const ZkModule: typeof zk.ZkModule;
  const ZookeeperInstrumentation: typeof opentelemetry.ZookeeperInstrumentation;

  const client: zk.ZkClient;
  const locks: zk.LockService;
  const mutex: recipes.Mutex;
  const module: TestingModule;
  const zookeeper: TestZooKeeper;
  const stock: Repository<{ id: string; left: number; fence: string }>;
  const id: string;
  const tracerProvider: TracerProvider;
  const meterProvider: MeterProvider;

  class Context {
    protected readonly locks: zk.LockService;
    protected readonly semaphores: zk.SemaphoreService;
    protected readonly region: string;
    protected readonly stock: { deduct(goodsNo: string, token: bigint): Promise<void> };
    transfer(): Promise<void>;
    search(): Promise<void>;
    print(): Promise<void>;
  }
}
