import { expect, test, vi } from 'vitest';
import { resolveOptions } from '../../../lib/embedded/options.js';
import type { Answer } from '../../../lib/embedded/worker.js';

/** What Deno's parentPort has of Node's, as far as the thread needs it. */
const port = vi.hoisted(() => ({
  on: (_event: string, listener: (request: unknown) => void) => void (port.receive = listener),
  receive: (_request: unknown): void => {},
  postMessage: vi.fn<(answer: Answer) => void>(),
  unref: vi.fn<() => void>(),
}));
vi.mock(import('node:worker_threads'), async (importOriginal) => ({
  ...(await importOriginal()),
  parentPort: port as never,
  workerData: { options: resolveOptions({}), saved: undefined },
}));

test('the thread of the server needs no close() of its port, which Deno does not have', async () => {
  await import('../../../lib/embedded/worker.js');
  await vi.waitFor(() => expect(port.postMessage).toHaveBeenCalledTimes(1));
  expect(port.unref).not.toHaveBeenCalled();
  port.receive({ id: 1, method: 'close', args: [] });
  await vi.waitFor(() => expect(port.unref).toHaveBeenCalledTimes(1));
});
