import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  FrameSplitter,
  MAX_FRAME_LENGTH,
  ProtocolError,
  Writer,
} from '../../../lib/protocol/index.js';
import { memoryInUse } from '../../support/memory.js';

const framesIn = (splitter: FrameSplitter): string[] => {
  const frames: string[] = [];
  for (let frame = splitter.next(); frame; frame = splitter.next()) frames.push(frame.toString());
  return frames;
};

const lengthOnly = (length: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32BE(length);
  return bytes;
};

describe('The frame splitter', () => {
  test('finds the same frames however the stream is divided into chunks', () => {
    fc.assert(
      fc.property(
        fc.array(fc.string({ maxLength: 40 }), { maxLength: 12 }),
        fc.array(fc.integer({ min: 1, max: 30 }), { minLength: 1 }),
        (texts, cuts) => {
          const writer = new Writer();
          for (const text of texts) {
            writer.frame((to) => to.text(text));
          }
          const stream = writer.take();
          const whole = new FrameSplitter();
          whole.push(stream);
          const cut = new FrameSplitter();
          const found: string[] = [];
          for (let at = 0, i = 0; at < stream.length; i++) {
            const size = cuts[i % cuts.length];
            cut.push(stream.subarray(at, at + size));
            at += size;
            found.push(...framesIn(cut));
          }
          expect(found).toEqual(framesIn(whole));
          expect(found).toHaveLength(texts.length);
        },
      ),
      { seed: 1 },
    );
  });

  test('accepts a frame of the maximum length, and rejects a longer one and a negative length', () => {
    const splitter = new FrameSplitter();
    splitter.push(lengthOnly(MAX_FRAME_LENGTH));
    expect(splitter.next()).toBeUndefined();
    splitter.push(Buffer.alloc(MAX_FRAME_LENGTH));
    expect(splitter.next()).toHaveLength(MAX_FRAME_LENGTH);
    for (const length of [MAX_FRAME_LENGTH + 1, 0x7fff_ffff, -1, -0x8000_0000]) {
      const refusing = new FrameSplitter();
      refusing.push(lengthOnly(length));
      expect(() => refusing.next()).toThrow(ProtocolError);
    }
  });

  test('needs little memory for a frame that arrives in chunks of one byte', () => {
    const frame = Buffer.from(Array.from({ length: 100_000 }, (_, i) => i));
    const splitter = new FrameSplitter();
    splitter.push(lengthOnly(frame.length));
    const before = memoryInUse();
    for (let i = 0; i < frame.length; i++) {
      if (splitter.next()) throw new Error(`a frame after ${i} bytes`);
      splitter.push(frame.subarray(i, i + 1));
    }
    expect(memoryInUse() - before).toBeLessThan(10 * frame.length);
    expect(splitter.next()?.equals(frame)).toBe(true);
  });
});
