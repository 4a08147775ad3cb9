import { describe, expect, it } from 'vitest';
import { parseOptions, UsageError } from '../../../sample-app/seckill/options.js';

describe('the flags of the seckill', () => {
  it('have the defaults of the README', () => {
    expect(parseOptions([])).toEqual({
      instances: 3,
      buyers: 1500,
      items: 100,
      delay: [0, 20],
      zookeeper: undefined,
      database: undefined,
      json: false,
    });
  });

  it('accept all values', () => {
    const line =
      '--instances 2 --buyers 50 --items 7 --delay 5-9 --zookeeper a:2181,[::1]:2182/x --database postgres://u:p@h/shop --json';
    expect(parseOptions(line.split(' '))).toEqual({
      instances: 2,
      buyers: 50,
      items: 7,
      delay: [5, 9],
      zookeeper: 'a:2181,[::1]:2182/x',
      database: 'postgres://u:p@h/shop',
      json: true,
    });
  });

  it.each([
    ['--nonsense', "Unknown option '--nonsense'"],
    ['--buyers', "Option '--buyers <value>' argument missing"],
    ['--buyers many', "--buyers must be a whole number from 1 to 20000, but is 'many'"],
    ['--items 1501', '--items (1501) must not exceed --buyers (1500): nothing would sell out'],
    ['--buyers 2 --items 1', '--instances (3) must not exceed --buyers (2)'],
    [
      '--delay 20-0',
      "--delay must be a range of milliseconds such as 0-20, at most 10000, but is '20-0'",
    ],
    [
      '--zookeeper localhost',
      "--zookeeper must be host:port[,host:port…][/chroot], but is 'localhost'",
    ],
    ['--database oracle://me:secret@host/shop', '--database must be a URL'],
  ])('reject %s with one line', (line, message) => {
    const parse = () => parseOptions(line.split(' '));
    expect(parse).toThrow(UsageError);
    expect(parse).toThrow(message);
    expect(parse).not.toThrow(/\n|secret/);
  });
});
