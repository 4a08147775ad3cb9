import { Test } from '@nestjs/testing';
import { afterEach, describe, expect, it } from 'vitest';
import { ZkModule } from 'nestjs-zookeeper';
import { CoordinationModule, CoordinationService } from 'nestjs-zookeeper/coordination';
import { eventually } from '../../support/eventually.js';
import { useServer } from '../../support/servers.js';

const server = useServer();
const close: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const each of close.splice(0)) await each();
});

async function application(namespace: string) {
  const module = await Test.createTestingModule({
    imports: [
      ZkModule.forRoot({ connectString: server.connectString, namespace }),
      CoordinationModule.forRoot(),
    ],
  }).compile();
  await module.init();
  close.push(() => module.close());
  return { module, service: module.get(CoordinationService) };
}

describe('the methods of CoordinationService', () => {
  it('open counters and barriers by name, in the namespace', async () => {
    const namespace = server.path('service');
    const { service } = await application(namespace);
    expect(service.counter('a/b').path).toBe(`${namespace}/counters/a%2Fb`);
    expect(service.barrier('b').path).toBe(`${namespace}/barriers/b`);
    expect(service.doubleBarrier('c', 1).path).toBe(`${namespace}/double-barriers/c`);
    expect(await service.counter('a/b').increment()).toEqual({ preValue: 0n, postValue: 1n });
    await service.barrier('b').setBarrier();
    await service.barrier('b').removeBarrier();
    const member = service.doubleBarrier('c', 1);
    await member.enter();
    await member.leave();
  });

  it('refuse wrong arguments', async () => {
    const { service } = await application(server.path('wrong'));
    expect(() => service.counter('')).toThrow('name must be');
    expect(() => service.counter('a', { lock: '/x' } as object)).toThrow('unknown option lock');
    expect(() => service.barrier(1 as never)).toThrow('name must be');
    expect(() => service.doubleBarrier('a', 0)).toThrow('members must be');
  });

  it('return barriers whose waits end with the application', async () => {
    const { module, service } = await application(server.path('shutdown'));
    const barrier = service.barrier('b');
    await barrier.setBarrier();
    const wait = barrier.waitOnBarrier();
    const member = service.doubleBarrier('c', 2);
    const entering = member.enter();
    wait.catch(() => {});
    entering.catch(() => {});
    await eventually(async () => {
      expect((await service.client.children(member.path)).children).toHaveLength(1);
    });
    close.length = 0;
    await module.close();
    await expect(wait).rejects.toMatchObject({ code: 'SHUTTING_DOWN' });
    await expect(entering).rejects.toMatchObject({ code: 'SHUTTING_DOWN' });
  });
});
