import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { useCli } from '../../support/cli.js';
import { useServer } from '../../support/servers.js';

const RUNS = process.env.NIGHTLY ? 200 : 40;
const AT_A_TIME = 8;

const server = useServer();
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
