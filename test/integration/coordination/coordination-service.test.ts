import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { Logger } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { describe, expect, vi } from 'vitest';
import { ShuttingDownError } from 'nestjs-zookeeper';
import { CoordinationModule, CoordinationService } from 'nestjs-zookeeper/coordination';
import { encodeItems } from '../../../lib/coordination/recipes/internals/queue-items.js';
import { eventually } from '../../support/eventually.js';
import { Gate } from '../../support/gate.js';
import { useApps } from '../../support/nest-apps.js';
import { untilNodes } from '../../support/recipe-nodes.js';
import { serverHas, useServer } from '../../support/servers.js';
import { afterEach, beforeEach, it } from '../../support/virtual-time.js';

const server = useServer();
const apps = useApps(server);
const start = () => apps.start({ imports: [CoordinationModule.forRoot()] });
let app: Awaited<ReturnType<typeof start>>;
let service: CoordinationService;
let namespace: string;
beforeEach(async () => {
  ({ namespace } = apps.options() as { namespace: string });
  app = await start();
  service = app.get(CoordinationService);
});
afterEach(() => vi.restoreAllMocks());

describe('the methods of CoordinationService', () => {
  it('open counters and barriers by name, in the namespace', async () => {
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

  it.runIf(serverHas.ttlNodes)('keep persistent nodes until the shutdown', async () => {
    const node = service.persistentNode('web/1', { mode: 'persistent' });
    const ttlNode = service.persistentNode('batch', { ttl: 60_000 });
    expect(await node.waitForInitialCreate()).toBe(`${namespace}/persistent-nodes/web%2F1`);
    const ttlPath = `${namespace}/persistent-nodes/batch`;
    expect(await ttlNode.waitForInitialCreate()).toBe(ttlPath);
    await eventually(async () => {
      expect(await service.client.exists(`${ttlPath}/touch`)).toBeDefined();
    });
    const closed = service.persistentNode('closed', { onError: undefined });
    await closed.close();
    const closeAgain = vi.spyOn(closed, 'close');
    await app.close();
    expect([node.state, ttlNode.state]).toEqual(['closed', 'closed']);
    expect(closeAgain).not.toHaveBeenCalled();
    const { client } = await start();
    expect(await client.exists(node.path)).toBeUndefined();
    expect(await client.exists(ttlPath)).toBeDefined();
  });

  it('log the errors of a persistent node', async () => {
    const error = vi.spyOn(Logger.prototype, 'error').mockImplementation(() => {});
    const path = `${namespace}/persistent-nodes/a`;
    await service.client.ensureContainers(path);
    service.persistentNode('a');
    await eventually(() => expect(error).toHaveBeenCalledOnce());
    expect(error.mock.calls[0]![0]).toMatch(`persistent node ${path}: znode ${path} exists`);
  });

  it('log no part of an item that is not JSON', async () => {
    const error = vi.spyOn(Logger.prototype, 'error').mockImplementation(() => {});
    const name = 'q\u202e';
    const queue = service.queue(name);
    await service.client.ensureContainers(queue.path);
    const data = encodeItems({ items: [Buffer.from('geheim')], id: Buffer.alloc(16), attempts: 0 });
    await service.client.create(`${queue.path}/queue-`, data, { mode: 'persistent-sequential' });
    const consumer = queue.consume(() => {});
    await eventually(() => expect(error).toHaveBeenCalledOnce());
    const [line, stack] = error.mock.calls[0] as string[];
    expect(line).toMatch(
      /^queue "q\?": item queue-0+ of .* stays in the queue: Error: it is not JSON$/,
    );
    expect(stack).toMatch(/^Error: it is not JSON\n/);
    await consumer.close();
  });

  it('refuse wrong arguments', async () => {
    expect(() => service.counter('')).toThrow('name must be');
    expect(() => service.counter('a', { lock: '/x' } as object)).toThrow('unknown option lock');
    expect(() => service.barrier(1 as never)).toThrow('name must be');
    expect(() => service.doubleBarrier('a', 0)).toThrow('members must be');
    expect(() => service.persistentNode('')).toThrow('name must be');
    expect(() => service.persistentNode('a', { mode: 'x' as never })).toThrow('mode must be');
  });

  it('need a connection of ZkModule', async () => {
    const without = (connection?: string) =>
      Test.createTestingModule({ imports: [CoordinationModule.forRoot({ connection })] }).compile();
    await expect(without()).rejects.toThrow(
      'add ZkModule.forRoot({ connectString }) to the imports',
    );
    await expect(without('a')).rejects.toThrow(
      'add ZkModule.forRoot({ connectString, name: "a" })',
    );
    expect(() => CoordinationModule.forRoot({ connection: 5 as never })).toThrow(
      'connection must be a non-empty string',
    );
  });

  it('keep the defaults for options that are undefined', async () => {
    const undefinedOptions = { lockPath: undefined, serializer: undefined, onError: undefined };
    const error = vi.spyOn(Logger.prototype, 'error').mockImplementation(() => {});
    const queue = service.queue('q', undefinedOptions);
    expect(queue.lockPath).toBe(service.queue('q').lockPath);
    const handled = vi.fn();
    await queue.put({ a: 1 });
    const consumer = queue.consume(
      (item) => {
        handled(item);
        throw new Error('no');
      },
      { errorMode: 'delete' },
    );
    await eventually(() => expect(error).toHaveBeenCalledOnce());
    expect(handled.mock.calls).toEqual([[{ a: 1 }]]);
    await consumer.close();
  });

  it('refuse to open anything after the shutdown', async () => {
    const queue = service.queue('q');
    await service.closeAll();
    for (const open of [
      () => service.queue('q'),
      () => service.members('a'),
      () => service.cache('a'),
      () => service.persistentNode('a'),
      () => queue.consume(() => {}),
    ]) {
      expect(open).toThrow(ShuttingDownError);
    }
    await expect(service.value('a', { default: 1 })).rejects.toThrow(ShuttingDownError);
  });

  it('close once: a second call waits for the handlers as the first one does', async () => {
    const queue = service.queue('q');
    await queue.put(1);
    const gate = new Gate();
    queue.consume(() => gate.pass());
    await gate.reached;
    const order: string[] = [];
    const first = service.closeAll().then(() => order.push('first'));
    const second = service.closeAll().then(() => order.push('second'));
    await service.client.sync('/');
    expect(order).toEqual([]);
    gate.open();
    await Promise.all([first, second]);
    expect(order).toEqual(['first', 'second']);
  });

  it('keep no queue that the application has dropped', async () => {
    setFlagsFromString('--expose-gc');
    const collectGarbage = runInNewContext('gc') as () => void;
    const dropped = new WeakRef(service.queue('q'));
    await eventually(() => {
      collectGarbage();
      expect(dropped.deref() === undefined).toBe(true);
    });
    const handled = vi.fn();
    service.queue('q').consume(handled);
    collectGarbage();
    await service.queue('q').put(1);
    await eventually(() => expect(handled).toHaveBeenCalledOnce());
  });

  it('return barriers whose waits end with the application', async () => {
    const barrier = service.barrier('b');
    await barrier.setBarrier();
    const wait = barrier.waitOnBarrier();
    const member = service.doubleBarrier('c', 2);
    const entering = member.enter();
    const rejected = [wait, entering].map((each) =>
      expect(each).rejects.toMatchObject({ code: 'SHUTTING_DOWN' }),
    );
    await untilNodes(app.client, member.path, 1);
    await app.close();
    await Promise.all(rejected);
  });
});
