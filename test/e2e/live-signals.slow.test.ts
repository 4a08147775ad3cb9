import { describe, expect, it } from 'vitest';
import { fourLetterWord, RealZooKeeper } from '../support/real-zookeeper.js';
import { ListeningProcess } from './live-server-process.js';
import { Visitor } from './live-visitor.js';

describe('a signal during two sales', () => {
  it.each([
    ['SIGTERM', 'to the server of the page'],
    ['SIGTERM', 'to the server and its instances'],
    ['SIGINT', 'to the server and its instances'],
    ['SIGHUP', 'to the server and its instances'],
  ] as const)('%s %s leaves no lock behind, and no stack trace', async (signal, receivers) => {
    const zookeeper = await RealZooKeeper.start();
    try {
      await using server = await ListeningProcess.liveServer({
        ZOOKEEPER: `127.0.0.1:${zookeeper.port}`,
      });
      await using visitor = await Visitor.open(server.address);
      const order = { mode: 'strict', buyers: 100, items: 100, delay: [300, 300] };
      expect(await visitor.post('both', order)).toEqual({ status: 204 });
      const { token } = await visitor.find('stock-written', (event) => event.token !== undefined);
      expect(token).toBeDefined();
      expect(await fourLetterWord(zookeeper.port, 'dump')).toContain('/seckill/locks/');

      const pids = visitor.status!.instances.map(({ pid }) => pid!);
      if (receivers !== 'to the server of the page')
        for (const pid of pids) process.kill(pid, signal);
      server.kill(signal);
      await server.ended;
      expect(await fourLetterWord(zookeeper.port, 'dump')).not.toContain('/seckill/');
      expect(server.errors).not.toMatch(/^ +at |EPIPE/m);
    } finally {
      await zookeeper.dispose();
    }
  });
});
