import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { RunEvent } from '../../../sample-app/live/events.js';

const DIRECTORY = new URL('../../../sample-app/page/demo/recordings/', import.meta.url);

describe('a recorded run', () => {
  it.each(readdirSync(DIRECTORY))('is complete: %s', (file) => {
    const text = readFileSync(new URL(file, DIRECTORY), 'utf8');
    const { events } = JSON.parse(text) as { events: RunEvent[] };
    const salesOf = (type: 'sale-started' | 'sale-ended') =>
      events.flatMap((event) => (event.type === type ? event.sale : [])).toSorted((a, b) => a - b);
    expect(salesOf('sale-ended')).toEqual(salesOf('sale-started'));
    expect(events.findLast(({ type }) => type === 'caption')).toMatchObject({ caption: 'end' });
  });
});
