import { ConsoleLogger } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { ZkClient, ZkModule } from 'nestjs-zookeeper';
import { expect, it, vi } from 'vitest';

vi.mock('../../lib/client/transport/native-binding.js', () => ({
  loadBinding: () => Promise.reject(new Error('the npm package `zookeeper` cannot be loaded')),
}));

it("the log says once why the wire transport is used, and names transport: 'wire'", async () => {
  vi.stubEnv('NESTJS_ZOOKEEPER_TRANSPORT', undefined);
  const warnings: unknown[] = [];
  process.on('warning', (warning) => warnings.push(warning));
  const lines: string[] = [];
  const logger = new ConsoleLogger({ logLevels: ['log'] });
  logger.log = (line: string) => void lines.push(line);
  const imports = [
    ZkModule.forRoot({ embedded: true }),
    ZkModule.forRoot({ embedded: true, name: 'audit' }),
  ];
  const module = await Test.createTestingModule({ imports }).setLogger(logger).compile();
  await module.init();
  expect(module.get(ZkClient).transport).toBe('wire');
  expect(lines.filter((line) => line.includes('the wire transport is used'))).toEqual([
    "the wire transport is used, because the npm package `zookeeper` cannot be loaded; set transport: 'wire' to choose it without this message",
  ]);
  await module.close();
  expect(warnings).toEqual([]);
});
