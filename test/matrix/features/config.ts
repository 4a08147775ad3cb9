import assert from 'node:assert/strict';
import { Module } from '@nestjs/common';
import { ConfigModule, ConfigService } from '@nestjs/config';
import { NestFactory } from '@nestjs/core';
import { BadOptionError, LockService, ZkModule } from 'nestjs-zookeeper';
import { TestZooKeeper } from 'nestjs-zookeeper/testing';
import type { Check } from '../support/instances.js';

@Module({
  imports: [
    ConfigModule.forRoot({ ignoreEnvFile: true }),
    ZkModule.forRootAsync({
      imports: [ConfigModule],
      inject: [ConfigService],
      useFactory: (config: ConfigService) => ({
        connectString: config.get<string>('ZOOKEEPER') as string,
      }),
    }),
  ],
})
class AppModule {}

export const check: Check = async () => {
  const start = () =>
    NestFactory.createApplicationContext(AppModule, { logger: false, abortOnError: false });
  delete process.env.ZOOKEEPER;
  await assert.rejects(start, (error: Error) => {
    assert.ok(error instanceof BadOptionError);
    assert.match(error.message, /connectString/);
    return true;
  });
  const zookeeper = await TestZooKeeper.embedded();
  process.env.ZOOKEEPER = zookeeper.connectString;
  const app = await start();
  const token = await app.get(LockService).withLock('config', ({ fencingToken }) => fencingToken);
  assert.equal(typeof token, 'bigint');
  await app.close();
  await zookeeper.stop();
};
