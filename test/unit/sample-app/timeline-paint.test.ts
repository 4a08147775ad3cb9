import { expect, it } from 'vitest';
import type { TimelineData } from '../../../sample-app/page/timeline/data.js';
import { layOut } from '../../../sample-app/page/timeline/layout.js';
import { ENGLISH as text } from '../../../sample-app/page/timeline/text.js';

// Not a static import: the tests are compiled without the types of the DOM.
const PAINT: string = '../../../sample-app/page/timeline/paint.js';

it('draws few lines at the maximum zoom of a long run', async () => {
  const { paintTimeline } = await import(PAINT);
  const lease = { lane: 0, key: 'stock', outcome: 'died', lockFreedAt: 9_000 };
  const data: TimelineData = {
    ...{ from: 0, until: 9_000, lanes: ['Instance 1'], handOvers: [], writes: [], violations: [] },
    leases: [
      { ...lease, requested: 0, granted: 10, ended: 20 },
      { ...lease, requested: 0 },
    ],
    bands: [{ lane: 0, kind: 'dead', from: 20 }],
  };
  let lines = 0;
  const lineTo = (x: number) => {
    lines += 1;
    expect(Math.abs(x)).toBeLessThan(2_000);
    expect(lines).toBeLessThan(2_000);
  };
  const canvas = new Proxy(
    {},
    {
      get: (_, name) => (name === 'lineTo' ? lineTo : () => ({ width: 20 })),
      set: () => true,
    },
  );
  const colours = { ground: '', text: '', quiet: '', line: '', hold: '', wait: '', bad: '' };
  const theme = { ...colours, warn: '', keys: [''], font: '' };
  for (const style of ['area', 'rows'] as const) {
    const layout = layOut(data, { head: 0, body: 100 }, style);
    const view = { from: 4_000, until: 4_000.05 };
    paintTimeline(canvas, { data, layout, view, width: 1_000, left: 0, theme, text });
  }
  expect(lines).toBeGreaterThan(0);
});
