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

  it.each<[string, string | undefined, string | undefined, string?]>([
    ['another machine', '192.168.1.5', 'localhost:3000'],
    ['another machine', '::ffff:10.0.0.1', 'localhost:3000'],
    ['an unknown peer', undefined, 'localhost:3000'],
    // A name that may resolve to this machine.
    ['another host name', '127.0.0.1', '127.0.0.1.example'],
    ['no host name', '127.0.0.1', undefined],
    ['an invalid host name', '127.0.0.1', 'a b'],
    ['another page', '127.0.0.1', 'localhost:3000', 'http://localhost:3001'],
    ['another page', '127.0.0.1', 'localhost:3000', 'https://localhost:3000'],
    ['a page without an origin', '127.0.0.1', 'localhost:3000', 'null'],
  ])('is rejected from %s: peer %j, host %j, origin %j', (_, peer, host, origin) => {
    expect(from(peer, host, origin)).toBe(false);
  });

  it.each(['forwarded', 'x-forwarded-for', 'x-real-ip', 'via'])(
    'is rejected from a proxy on this machine, which adds the header %s',
    (name) => {
      expect(from('127.0.0.1', 'localhost:3000', undefined, { [name]: 'x' })).toBe(false);
    },
  );
});
