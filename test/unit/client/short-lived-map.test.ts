import v8 from 'node:v8';
import vm from 'node:vm';
import { describe, expect, it, vi } from 'vitest';
import { ShortLivedMap } from '../../../lib/client/short-lived-map.js';

describe('ShortLivedMap', () => {
  it('behaves like a Map for any order of insertions and removals', () => {
    const map = new ShortLivedMap<number, string>();
    const model = new Map<number, string>();
    let state = 20261127;
    const random = (below: number) => (state = (state * 48271) % 2147483647) % below;
    for (let step = 0; step < 20_000; step++) {
      const key = random(step % 500);
      if (random(2) === 0) {
        map.set(key, `${step}`);
        model.set(key, `${step}`);
      } else {
        expect(map.delete(key)).toBe(model.delete(key));
      }
      expect([map.size, map.has(key), map.get(key)]).toEqual([
        model.size,
        model.has(key),
        model.get(key),
      ]);
    }
    expect(map.keys()).toEqual([...model.keys()]);
    expect(map.values()).toEqual([...model.values()]);
    map.clear();
    expect([map.size, map.keys(), map.get(1)]).toEqual([0, [], undefined]);
  });

  it('is copied when half of it was removed, not at each removal', () => {
    const map = new ShortLivedMap<number, number>();
    for (let key = 0; key < 1024; key++) map.set(key, key);
    let copies = 0;
    vi.stubGlobal(
      'Map',
      class<K, V> extends Map<K, V> {
        constructor(entries?: Iterable<readonly [K, V]>) {
          super(entries);
          copies++;
        }
      },
    );
    try {
      for (let key = 0; key < 1024; key++) map.delete(key);
    } finally {
      vi.unstubAllGlobals();
    }
    // 512, 256, 128, 64, 32, 16 and 0 entries are copied.
    expect(copies).toBe(7);
  });

  it('does not keep removed values alive until a full garbage collection', () => {
    v8.setFlagsFromString('--expose-gc');
    const collect = vm.runInNewContext('gc') as (options: { type: 'minor' }) => void;
    const map = new ShortLivedMap<number, number[]>();
    map.set(-1, []);
    // The first table moves to the old generation.
    for (let i = 0; i < 4; i++) collect({ type: 'minor' });
    const before = process.memoryUsage().heapUsed;
    for (let key = 0; key < 50_000; key++) {
      map.set(
        key,
        Array.from({ length: 100 }, () => key),
      );
      map.delete(key - 8);
      if (key % 5_000 === 0) collect({ type: 'minor' });
    }
    collect({ type: 'minor' });
    // The removed values have 40 MB. A Map keeps nearly all of them.
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(8e6);
  });
});
