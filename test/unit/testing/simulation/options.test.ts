import { simulate } from 'nestjs-zookeeper/testing';
import { describe, expect, it } from 'vitest';

const nothing = () => {};

describe('invalid arguments of a simulation', () => {
  it.each<[object | null, string]>([
    [{ sede: 1 }, 'simulate: unknown option "sede"'],
    [{ seed: -1 }, 'simulate: seed must be from 0 to 4294967295, got -1'],
    [{ seed: 2 ** 32 }, 'simulate: seed must be from 0 to 4294967295, got 4294967296'],
    [{ seed: '1' }, 'simulate: seed must be a whole number, got "1"'],
    [{ limit: -1 }, 'simulate: limit must be from 1 to'],
    [{ limit: NaN }, 'simulate: limit must be a number, got NaN'],
    [
      { server: 'etcd' },
      'simulate: server must be one of zookeeper, clickhouse-keeper, got "etcd"',
    ],
    [{ servers: 0 }, 'simulate: servers must be from 1 to 7, got 0'],
    [{ servers: 8 }, 'simulate: servers must be from 1 to 7, got 8'],
    [{ tickTime: 0 }, 'simulate: tickTime must be from 10 to 60000, got 0'],
    [{ latency: 5 }, 'simulate: latency must be [min, max] milliseconds, got 5'],
    [{ latency: [-1, 1] }, 'simulate: latency[0] must be from 0 to 60000, got -1'],
    [{ latency: [2, 1] }, 'simulate: latency[1] must be from 2 to 60000, got 1'],
    [{ lag: [0, Infinity] }, 'simulate: lag[1] must be from 0 to 60000, got Infinity'],
    [{ syncLimit: 0 }, 'simulate: syncLimit must be from 1 to 100, got 0'],
    [{ syncLimit: 1.5 }, 'simulate: syncLimit must be a whole number, got 1.5'],
    [null, 'simulate: the options of simulate() must be an object, got null'],
  ])('are reported with the name and the value of the option: %j', async (options, message) => {
    await expect(simulate(options as object, nothing)).rejects.toThrow(message);
  });

  it('are reported if the scenario is not a function', async () => {
    await expect(simulate({}, undefined as never)).rejects.toThrow(
      'simulate: the scenario must be a function, got undefined',
    );
  });

  it('are reported if another simulation is running', async () => {
    await simulate({ seed: 1 }, async () => {
      await expect(simulate({ seed: 2 }, nothing)).rejects.toThrow(
        'simulate: another simulation is still running in this Node process, such as that of a test that timed out; run one simulation at a time',
      );
    });
  });

  it('are rejected by the methods of the world', async () => {
    await simulate({ seed: 1 }, async (world) => {
      const process = world.process('a');
      expect(() => world.sleep(-1)).toThrow('simulate: the time of sleep() must be from 0');
      expect(() => world.sleep(NaN)).toThrow(
        'simulate: the time of sleep() must be a number, got NaN',
      );
      expect(() => world.at(-1, nothing)).toThrow('simulate: the time of at() must be from 0');
      expect(() => world.at(1, 5 as never)).toThrow(
        'simulate: the callback of at() must be a function, got 5',
      );
      expect(() => process.block(-1)).toThrow('simulate: the time of block() must be from 0');
      expect(() => process.stepClock(NaN)).toThrow(
        'simulate: the step of stepClock() must be a number',
      );
      expect(() => (process.link.latency = [3, 2])).toThrow('simulate: latency[1] must be from 3');
      expect(() => process.link.cut('up' as never)).toThrow(
        `simulate: the direction of cut() must be "requests", "replies" or "both", got "up"`,
      );
      expect(() => world.loseReply('creat' as never)).toThrow(
        `simulate: the operation of loseReply() must be one of ZooKeeper, such as 'create', got "creat"`,
      );
      expect(() => world.process('b', { clockRate: 3 })).toThrow(
        'simulate: clockRate must be from 0.5 to 2, got 3',
      );
      expect(() => world.process('b', { clockrate: 1 } as object)).toThrow(
        'simulate: unknown option "clockrate" of process(); the options are clockRate',
      );
      expect(() => world.process('')).toThrow('simulate: the name of a process must not be empty');
      expect(() => world.process(undefined as never)).toThrow(
        'simulate: the name of a process must be a string, got undefined',
      );
      for (const name of ['scenario', '10.0.0.1:2181']) {
        expect(() => world.process(name)).toThrow(`simulate: the name "${name}" is reserved`);
      }
      expect(() => process.run(5 as never)).toThrow(
        'simulate: the argument of run() must be a function, got 5',
      );
      expect(() => world.note({ order: 1 } as never)).toThrow(
        'simulate: the text of note() must be a string, got { order: 1 }',
      );
      expect(() => world.expireSession('zz')).toThrow(
        'simulate: the client of expireSession() must be a ZkClient or the id of a session in hexadecimal, got "zz"',
      );
      expect(() => world.loseReply('create', {} as never)).toThrow(
        'simulate: the client of loseReply() must be a ZkClient',
      );
      expect(() => setTimeout('code' as never, 1)).toThrow(
        'The "callback" argument must be of type function. Received code',
      );
    });
  });
});
