import { type Codec, Writer } from '../../lib/protocol/index.js';

/** A frame as it is sent: the length, then the body. */
export function frameOf(body: (to: Writer) => void): Buffer {
  const writer = new Writer();
  writer.frame(body);
  return writer.take();
}

export function requestFrame<T>(type: number, codec: Codec<T>, value: T): Buffer {
  return frameOf((to) => {
    to.int(1);
    to.int(type);
    codec.write(value, to);
  });
}
