import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  type Codec,
  ConnectRequest,
  CreateRequest,
  GetChildren2Response,
  ProtocolError,
  Reader,
  ReplyHeader,
  SetWatches,
  type Stat,
  WatcherEvent,
  Writer,
} from '../../../lib/protocol/index.js';

const encode = <T>(codec: Codec<T>, value: T): Buffer => {
  const writer = new Writer();
  codec.write(value, writer);
  return writer.take();
};
const decode = <T>(codec: Codec<T>, bytes: Buffer): T => codec.read(new Reader(bytes));

const stat: Stat = {
  czxid: 2 ** 52 + 1,
  mzxid: 2 ** 32,
  ctime: 1_700_000_000_000,
  mtime: 0,
  version: -1,
  cversion: 0x7fff_ffff,
  aversion: 3,
  ephemeralOwner: -(2n ** 63n),
  dataLength: 4,
  numChildren: 1,
  pzxid: 2 ** 53 - 1,
};

describe('A record', () => {
  test('is encoded with the bytes that ZooKeeper’s own clients send', () => {
    const request = {
      protocolVersion: 0,
      lastZxidSeen: 0x1_0000_0002,
      timeout: 30_000,
      sessionId: 0x0100_0000_0000_0003n,
      password: Buffer.alloc(2, 0xab),
      readOnly: undefined,
    };
    const password = '00000002abab';
    const hex = `000000000000000100000002000075300100000000000003${password}`;
    expect(encode(ConnectRequest, request).toString('hex')).toBe(hex);
    expect(encode(ConnectRequest, { ...request, readOnly: true }).toString('hex')).toBe(`${hex}01`);
    expect(encode(WatcherEvent, { type: 3, state: 3, path: '/ä' }).toString('hex')).toBe(
      '0000000300000003000000032fc3a4',
    );
    expect(encode(ReplyHeader, { xid: -1, zxid: -1, err: -112 }).toString('hex')).toBe(
      'ffffffffffffffffffffffffffffff90',
    );
  });

  test.each<[string, Codec<never>, unknown]>([
    [
      'create request',
      CreateRequest as Codec<never>,
      { path: '/a', data: null, acl: [{ perms: 31, scheme: 'world', id: 'anyone' }], flags: 3 },
    ],
    ['listing', GetChildren2Response as Codec<never>, { children: ['a', '中', ''], stat }],
    [
      'list of watches',
      SetWatches as Codec<never>,
      { relativeZxid: -1, dataWatches: ['/a'], existWatches: [], childWatches: ['/b', '/c'] },
    ],
  ])('is decoded as it was encoded: %s', (_name, codec, value) => {
    expect(decode(codec, encode(codec, value as never))).toEqual(value);
  });

  test('that is truncated at any position is rejected', () => {
    const acl = [{ perms: 31, scheme: 'world', id: 'anyone' }];
    const whole = encode(CreateRequest, { path: '/abc', data: Buffer.from('x'), acl, flags: 0 });
    for (let length = 0; length < whole.length; length++) {
      expect(() => decode(CreateRequest, whole.subarray(0, length))).toThrow(ProtocolError);
    }
  });

  test('with a false length is rejected without allocating memory for it', () => {
    const lies = ['7fffffff', 'fffffffe', '80000000', 'ffffffff'];
    for (const lie of lies) {
      expect(() => new Reader(Buffer.from(lie, 'hex')).text()).toThrow(ProtocolError);
      // The length of null is -1.
      if (lie === 'ffffffff') continue;
      expect(() => new Reader(Buffer.from(lie, 'hex')).bytes()).toThrow(ProtocolError);
    }
    expect(() => new Reader(Buffer.from('7fffffff', 'hex')).vector((from) => from.text())).toThrow(
      ProtocolError,
    );
  });
});

describe('The writer and the reader', () => {
  test('agree on every number, text and buffer', () => {
    fc.assert(
      fc.property(
        fc.maxSafeInteger(),
        fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
        fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }),
        fc.string({ unit: 'grapheme', maxLength: 2000 }),
        fc.option(fc.uint8Array({ maxLength: 2000 })),
        (long, bigint, int, text, bytes) => {
          const writer = new Writer();
          writer.frame((to) => {
            to.long(long);
            to.bigint(bigint);
            to.int(int);
            to.text(text);
            to.bytes(bytes);
          });
          const reader = new Reader(writer.take());
          expect(reader.int()).toBe(reader.frame.length - 4);
          // The wire format has no −0.
          expect(reader.long()).toBe(long + 0);
          expect(reader.bigint()).toBe(bigint);
          expect(reader.int()).toBe(int);
          expect(reader.text()).toBe(text);
          expect(reader.bytes()?.toString('hex')).toBe(
            bytes ? Buffer.from(bytes).toString('hex') : undefined,
          );
          expect(reader.remaining).toBe(0);
        },
      ),
      { seed: 1 },
    );
  });

  test('never share a buffer that was handed over', () => {
    const writer = new Writer();
    writer.text('first');
    const first = writer.take();
    writer.text('other');
    expect(new Reader(first).text()).toBe('first');
    expect(new Reader(writer.take()).text()).toBe('other');
  });
});
