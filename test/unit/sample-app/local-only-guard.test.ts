import type { IncomingMessage } from 'node:http';
import { describe, expect, it } from 'vitest';
import { isLocal } from '../../../sample-app/shop/local-only.guard.js';

const from = (remoteAddress: string | undefined, host?: string, origin?: string, more = {}) =>
  isLocal({ socket: { remoteAddress }, headers: { host, origin, ...more } } as IncomingMessage);

describe('a request that changes something', () => {
  it.each([
    ['127.0.0.1', '127.0.0.1:3000'],
    ['127.0.0.1', 'localhost:3000'],
    ['::1', '[::1]:3000'],
    ['::ffff:127.0.0.1', 'localhost'],
    ['127.4.5.6', 'LOCALHOST:3000'],
  ])('is accepted from %s for %s', (peer, host) => {
    expect(from(peer, host)).toBe(true);
    expect(from(peer, host, `http://${host}`)).toBe(true);
  });

  it.each(['192.168.1.5', '::ffff:10.0.0.1', 'fe80::1', '0.0.0.0', undefined])(
    'is rejected from the peer %s, whatever its headers',
    (peer) => {
      expect(from(peer, 'localhost:3000')).toBe(false);
    },
  );

  it.each(['shop.example:3000', '127.0.0.1.example', '192.168.1.5', '', undefined, 'a b'])(
    'is rejected for the host %j, a name that may resolve to this machine',
    (host) => {
      expect(from('127.0.0.1', host)).toBe(false);
    },
  );

  it.each(['http://shop.example', 'http://localhost:3001', 'https://localhost:3000', 'null', ''])(
    'is rejected from a page of %j',
    (origin) => {
      expect(from('127.0.0.1', 'localhost:3000', origin)).toBe(false);
    },
  );

  it.each(['forwarded', 'x-forwarded-for', 'x-real-ip', 'via'])(
    'is rejected from a proxy on this machine, which adds the header %s',
    (name) => {
      expect(from('127.0.0.1', 'localhost:3000', undefined, { [name]: 'x' })).toBe(false);
    },
  );
});
