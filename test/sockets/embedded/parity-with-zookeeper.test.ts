import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { EmbeddedZooKeeper } from 'nestjs-zookeeper/embedded';
import { isReal } from '../../support/environment.js';
import { RealZooKeeper, untilServing } from '../../support/real-zookeeper.js';
import { Recorder } from '../../support/server-recorder.js';
import { randomOperations } from '../../support/server-script-random.js';
import { sessionScenarios, watchScenarios } from '../../support/server-script-sessions.js';
import { multiScenarios, type Scenario, scenarios } from '../../support/server-script.js';

const limits = { tickTime: 500, minSessionTimeout: 1000, maxSessionTimeout: 60_000 };

const transcriptOf = async (server: EmbeddedZooKeeper | RealZooKeeper, scenario: Scenario) => {
  const recorder = new Recorder(server.port, async () => {
    await server.restart();
    await untilServing(server.port);
  });
  await scenario(recorder);
  return recorder.finish();
};

/**
 * Each script states which error code each reply must have. If a real server is available, the
 * script runs there too, and everything else (stats, zxids, watch events, their order) must be
 * equal.
 */
describe('The embedded server behaves as Apache ZooKeeper. It', () => {
  let embedded: EmbeddedZooKeeper;
  let real: RealZooKeeper | undefined;

  beforeAll(async () => {
    [embedded, real] = await Promise.all([
      EmbeddedZooKeeper.start({
        ...limits,
        containerCheckInterval: 500,
        fourLetterWords: ['*'],
      }),
      isReal ? RealZooKeeper.start(limits) : undefined,
    ]);
    if (real) await untilServing(real.port);
  });
  afterAll(async () => {
    await embedded.stop();
    await real?.dispose();
  });

  const sameOnBoth = async (scenario: Scenario) => {
    const [ours, theirs] = await Promise.all([
      transcriptOf(embedded, scenario),
      real && transcriptOf(real, scenario),
    ]);
    if (theirs) expect(ours).toEqual(theirs);
  };

  test.each(
    Object.entries({ ...scenarios, ...sessionScenarios, ...multiScenarios, ...watchScenarios }),
  )('%s', (_name, scenario) => sameOnBoth(scenario));

  // Their replies are known only from a real server.
  test.runIf(isReal).each([1, 2, 3, 4, 5])(
    'gives the same replies to 600 random operations of seed %i',
    (seed) => sameOnBoth((server) => randomOperations(server, seed, 600)),
  );
});
