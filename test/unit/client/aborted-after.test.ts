import { setImmediate as nextTurn } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, it } from 'vitest';
import { abortedAfter } from '../../../lib/client/sleep.js';

it('aborts at its limit, although garbage was collected before', async () => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const aborted = new Promise((resolve) => {
    abortedAfter(100, new AbortController().signal).addEventListener('abort', resolve);
  });
  // A collection frees only what no earlier turn of the event loop has used.
  await nextTurn();
  collect();
  await nextTurn();
  collect();
  await expect(aborted).resolves.toBeDefined();
});
