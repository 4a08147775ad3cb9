import { expect, test } from 'vitest';
import { NodeError, ZkClient } from '../../../lib/client/index.js';
import { RealZooKeeper } from '../../support/real-zookeeper.js';

test.runIf(process.env.ZK_SERVER === 'real')(
  'a server without extended types refuses a TTL with an error that names the setting',
  async () => {
    const server = await RealZooKeeper.start({
      config: { extendedTypesEnabled: false },
      jvm: ['-Dzookeeper.extendedTypesEnabled=false'],
    });
    const client = new ZkClient({ connectString: `127.0.0.1:${server.port}` });
    try {
      await client.connect();
      const expected = {
        code: 'UNIMPLEMENTED',
        serverCode: -6,
        message: expect.stringContaining('zookeeper.extendedTypesEnabled=true'),
      };
      const errors = [
        await client.create('/a', '', { ttl: 1000 }).catch((error: unknown) => error),
        await client.transaction([{ create: '/a', ttl: 1000 }]).catch((error: unknown) => error),
      ];
      for (const error of errors) expect(error).toBeInstanceOf(NodeError);
      expect(errors).toMatchObject([expected, { ...expected, index: 0 }]);
    } finally {
      await client.close();
      await server.dispose();
    }
  },
);
