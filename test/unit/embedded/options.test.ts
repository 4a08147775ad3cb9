import { describe, expect, test } from 'vitest';
import { EmbeddedZooKeeper, type EmbeddedZooKeeperOptions } from 'nestjs-zookeeper/embedded';
import { resolveOptions } from '../../../lib/embedded/options.js';

const FOUR_LETTER_WORDS =
  'fourLetterWords must be an array of *, conf, cons, crst, dirs, dump, envi, gtmk, isro, mntr, ruok, srst, srvr, ' +
  'stat, stmk, wchc, wchp, wchs, got ';

describe('The embedded server’s options', () => {
  test('suit tests by default: loopback, a free port, the session timeouts that clients request', () => {
    expect(resolveOptions({})).toMatchObject({
      server: 'zookeeper',
      port: 0,
      host: '127.0.0.1',
      tickTime: 500,
      minSessionTimeout: 1000,
      maxSessionTimeout: 60_000,
      containerCheckInterval: 60_000,
      fourLetterWords: ['srvr'],
      maxClientCnxns: 0,
      superDigest: '',
    });
  });

  test('limit session timeouts to multiples of tickTime, as the real server does', () => {
    expect(resolveOptions({ tickTime: 5000 })).toMatchObject({
      minSessionTimeout: 10_000,
      maxSessionTimeout: 100_000,
    });
    expect(resolveOptions({ minSessionTimeout: 70_000 }).maxSessionTimeout).toBe(70_000);
  });

  test.each<[string, unknown, string]>([
    ['TypeError', { port: '2181' }, 'port must be a whole number, got "2181"'],
    ['RangeError', { port: 65_536 }, 'port must be between 0 and 65535, got 65536'],
    ['RangeError', { port: -1 }, 'port must be between 0 and 65535, got -1'],
    ['TypeError', { host: '' }, 'host must be an address to listen on, got ""'],
    ['TypeError', { host: 7 }, 'host must be an address to listen on, got 7'],
    ['TypeError', { tickTime: Number.NaN }, 'tickTime must be a whole number, got NaN'],
    ['RangeError', { tickTime: 0 }, 'tickTime must be between 10 and 60000, got 0'],
    ['TypeError', { minSessionTimeout: 0.5 }, 'minSessionTimeout must be a whole number, got 0.5'],
    [
      'RangeError',
      { minSessionTimeout: 2000, maxSessionTimeout: 1000 },
      'maxSessionTimeout must be between 2000 and 2147483647, got 1000',
    ],
    [
      'RangeError',
      { containerCheckInterval: 0 },
      'containerCheckInterval must be between 1 and 2147483647, got 0',
    ],
    ['TypeError', { maxClientCnxns: '3' }, 'maxClientCnxns must be a whole number, got "3"'],
    [
      'TypeError',
      { superDigest: 'super:secret' },
      'superDigest must be a user, a colon and a SHA-1 hash in Base64, got <string>',
    ],
    ['TypeError', { fourLetterWords: 'ruok' }, FOUR_LETTER_WORDS + '"ruok"'],
    ['TypeError', { fourLetterWords: ['ruok', 'rouk'] }, FOUR_LETTER_WORDS + '["ruok","rouk"]'],
    [
      'TypeError',
      { server: 'etcd' },
      'server must be one of zookeeper, clickhouse-keeper, got "etcd"',
    ],
    ['TypeError', { fourLetterWords: ['ftfl'] }, FOUR_LETTER_WORDS + '["ftfl"]'],
    ['TypeError', { prot: 1 }, 'unknown option "prot"'],
    ['TypeError', null, 'options must be an object, got null'],
    ['TypeError', '2181', 'options must be an object, got "2181"'],
  ])('reject %s, with the option and its value: %j', async (name, options, text) => {
    await expect(
      EmbeddedZooKeeper.start(options as EmbeddedZooKeeperOptions),
    ).rejects.toMatchObject({
      name,
      message: `EmbeddedZooKeeper: ${text}`,
    });
  });
});
