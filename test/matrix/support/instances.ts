import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { INestApplication, ModuleMetadata, NestApplicationOptions } from '@nestjs/common';
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { LeaderService, ZkModule } from 'nestjs-zookeeper';
import { TestZooKeeper } from 'nestjs-zookeeper/testing';

export type Platform = 'express' | 'fastify';
export type Check = (platform: Platform) => Promise<void>;

/** The election that the first instance leads. */
export const ELECTION = 'boss';
/** The id of an instance: `one` or `other`. */
export const INSTANCE = 'instance';

export interface Instances {
  readonly zookeeper: TestZooKeeper;
  readonly one: INestApplication;
  readonly other: INestApplication;
}

@Module({})
class AppModule {}

/**
 * Runs two instances of an application with an election, and their server, until `use` has ended.
 */
export async function withInstances(
  platform: Platform,
  { imports = [], providers = [], ...metadata }: ModuleMetadata,
  listen: (app: INestApplication) => Promise<unknown>,
  use: (instances: Instances) => Promise<void>,
  options: Pick<NestApplicationOptions, 'instrument'> = {},
): Promise<void> {
  const zookeeper = await TestZooKeeper.embedded();
  const namespace = randomUUID();
  const apps: INestApplication[] = [];
  const start = async (participantId: string) => {
    const zk = ZkModule.forRoot({
      connectString: zookeeper.connectString!,
      namespace,
      participantId,
    });
    const app = await NestFactory.create(
      {
        module: AppModule,
        imports: [zk, ...imports],
        providers: [{ provide: INSTANCE, useValue: participantId }, ...providers],
        ...metadata,
      },
      platform === 'express' ? new ExpressAdapter() : new FastifyAdapter(),
      { ...options, logger: false, abortOnError: false },
    );
    apps.push(app);
    await listen(app);
    return app;
  };
  try {
    const one = await start('one');
    await until(() => one.get(LeaderService).isLeader(ELECTION));
    await use({ zookeeper, one, other: await start('other') });
  } finally {
    await Promise.all(apps.map((app) => app.close()));
    await zookeeper.stop();
  }
}

export async function listenOnAnyPort(app: INestApplication): Promise<void> {
  await app.listen(0, '127.0.0.1');
}

export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = performance.now() + 10_000;
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error(`never came true: ${condition.toString()}`);
    await delay(10);
  }
}
