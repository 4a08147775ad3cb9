import { describe, expect, it } from 'vitest';
import { parseEnvironment } from '../../../sample-app/live/environment.js';

describe('the variables of npm start', () => {
  it('accept all values, and have defaults', () => {
    const defaults = { host: '127.0.0.1', port: 3000, payWithin: 900_000 };
    expect(parseEnvironment({ ZOOKEEPER: '', PAY_WITHIN: '' })).toEqual(defaults);
    const variables = { HOST: '::', PORT: '0', ZOOKEEPER: 'a:1,b:2/x', DATABASE: 'shop.sqlite' };
    const preferred = { ...variables, ZK_CONNECT_STRING: 'c:3' };
    expect(parseEnvironment(preferred)).toMatchObject({ zookeeper: 'c:3' });
    expect(parseEnvironment({ ...variables, PAY_WITHIN: '10' })).toEqual({
      ...{ host: '::', port: 0, zookeeper: 'a:1,b:2/x', database: 'shop.sqlite' },
      payWithin: 10_000,
    });
  });

  it.each([
    [{ PORT: 'abc' }, "PORT must be a whole number from 0 to 65535, but is 'abc'"],
    [{ PAY_WITHIN: 'x' }, "PAY_WITHIN must be a whole number from 1 to 86400, but is 'x'"],
    [{ ZOOKEEPER: 'nonsense:99999' }, 'ZOOKEEPER must be host:port[,host:port…][/chroot], but is'],
    [{ ZK_CONNECT_STRING: 'nonsense:99999' }, 'ZK_CONNECT_STRING must be host:port'],
    [{ DATABASE: 'redis://host/shop' }, 'DATABASE must be a URL such as mysql://'],
  ])('reject %j', (variables, message) => {
    expect(() => parseEnvironment(variables)).toThrow(message);
  });
});
