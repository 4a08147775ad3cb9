import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { EmbeddedZooKeeper } from 'nestjs-zookeeper/embedded';
import { isReal } from '../../support/environment.js';
import { rawCases } from '../../support/raw-cases.js';
import { exchange } from '../../support/raw-exchange.js';
import { RealZooKeeper } from '../../support/real-zookeeper.js';

/** The answer to the last request, which asks whether the connection is still open. */
const PROBE = 'xid 1000 zxid +0 err 0 body 68 bytes';

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
      isReal ? RealZooKeeper.start() : undefined,
    ]);
  });
  afterAll(async () => {
    await embedded.stop();
    await real?.dispose();
  });

  test('sends each of the raw cases', async () => {
    const answers: Record<string, string> = {};
    for (const [name, requests] of Object.entries(rawCases)) {
      const [ours, theirs] = await Promise.all([
        exchange(embedded.port, requests),
        real && exchange(real.port, requests),
      ]);
      if (theirs) expect([name, ...ours]).toEqual([name, ...theirs]);
      answers[name] = ours.join('; ').replace(PROBE, 'open');
    }
    expect(answers).toMatchSnapshot();
  });
});
