import { type Codec, Writer } from '../../lib/protocol/index.js';

/** A request as it travels, length first. */
export function requestFrame<T>(type: number, codec: Codec<T>, value: T): Buffer {
  const writer = new Writer();
  writer.frame((to) => {
    to.int(1);
    to.int(type);
    codec.write(value, to);
  });
  return writer.take();
}
