import { expect, it } from 'vitest';
import { runCopy } from '../support/example-copies.js';

it.each(['bullmq', 'cron', 'kubernetes'])('a copy of the example %s compiles', async (example) => {
  expect(await runCopy(example, 'build')).toContain('tsc');
});

it('a copy of the example typeorm-fence runs', async () => {
  expect(await runCopy('typeorm-fence', 'start')).toContain('is refused: StaleLeaseError: ');
});
