import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { EmbeddedZooKeeper } from 'nestjs-zookeeper/embedded';
import { Mutex } from 'nestjs-zookeeper/recipes';
import { expect, it } from 'vitest';
import { pidsIn, useCli } from '../../support/cli.js';
import { useClients } from '../../support/clients.js';
import { Link } from '../../support/link.js';
import { running } from '../../support/processes.js';
import { useServer } from '../../support/servers.js';

const RUNS = process.env.NIGHTLY ? 200 : 40;
const AT_A_TIME = 8;

const server = useServer();
const connect = useClients(server);
const start = useCli(server);

it(`${RUNS} commands, ${AT_A_TIME} at a time, increment the number in a file one after the other`, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'run-'));
  const file = join(folder, 'number');
  writeFileSync(file, '0');
  const lock = server.path('number');
  // Two processes, so that another run could read the number between them.
  const script = `n=$(cat ${file}); sleep 0.001; echo $((n + 1)) > ${file}`;
  const tokens: bigint[] = [];
  let left = RUNS;
  const worker = async () => {
    while (left-- > 0) {
      const args = ['run', '--lock', lock, '--', 'sh', '-c', `${script}; echo $ZK_FENCING_TOKEN`];
      const { code, out, err } = await start(args).ended;
      expect([code, err]).toEqual([0, '']);
      tokens.push(BigInt(out));
    }
  };
  await Promise.all(Array.from({ length: AT_A_TIME }, worker));
  expect(readFileSync(file, 'utf8')).toBe(`${RUNS}\n`);
  expect(new Set(tokens).size).toBe(RUNS);
  rmSync(folder, { recursive: true });
});

it('a lost session ends the command before another process gets the lock, also if the server granted a shorter session timeout', async () => {
  // The command ends a twelfth of the timeout before the session. A busy machine needs that time.
  await using strict = await EmbeddedZooKeeper.start({ maxSessionTimeout: 8000 });
  await using network = await Link.to(strict.port);
  const client = await connect({ connectString: strict.connectString });
  const script = `trap '' TERM; sleep 1000 & echo pids $$ $!; wait`;
  const options = ['--zookeeper', network.connectString, '--session-timeout', '30s'];
  const args = ['run', '--lock', '/a', ...options, '--', 'sh', '-c', script];
  const { until, output, ended } = start(args);
  await until('\n');
  await network.down();
  await new Mutex(client, '/a').acquire();
  expect(running(pidsIn(output.out))).toEqual([]);
  const { code, err } = await ended;
  expect(code).toBe(123);
  expect(err).toContain(
    'nestjs-zookeeper: the session timeout that the server granted, 8s, is shorter than --session-timeout\n',
  );
  await client.close();
});
