import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { EmbeddedZooKeeper } from 'nestjs-zookeeper/embedded';
import { rawCases } from '../../support/raw-cases.js';
import { exchange } from '../../support/raw-exchange.js';
import { RealZooKeeper } from '../../support/real-zookeeper.js';

const isRealAvailable = process.env.ZK_SERVER === 'real';

/**
 * The snapshot has the answers of ZooKeeper 3.8.0. Where there is a real server, the same frames are sent to it too,
 * and both servers must answer them as the snapshot says.
 */
describe('The embedded server answers the bytes that ZooKeeper answers when a client', () => {
  let embedded: EmbeddedZooKeeper;
  let real: RealZooKeeper | undefined;

  beforeAll(async () => {
    [embedded, real] = await Promise.all([
      EmbeddedZooKeeper.start(),
      isRealAvailable ? RealZooKeeper.start() : undefined,
    ]);
  });
  afterAll(async () => {
    await embedded.stop();
    await real?.dispose();
  });

  test.each(Object.entries(rawCases))('%s', async (_name, requests) => {
    const [ours, theirs] = await Promise.all([
      exchange(embedded.port, requests),
      real && exchange(real.port, requests),
    ]);
    if (theirs) expect(ours).toEqual(theirs);
    expect(ours).toMatchSnapshot();
  });
});
