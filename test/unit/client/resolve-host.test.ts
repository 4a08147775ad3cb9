import { expect, it, vi } from 'vitest';
import { resolveHost } from '../../../lib/client/hosts.js';

vi.mock('node:dns/promises', () => ({
  lookup: async () => [
    { family: 4, address: '192.0.2.1' },
    { family: 4, address: '192.0.2.2' },
    { family: 6, address: '2001:db8::1' },
    { family: 6, address: '2001:db8::2' },
  ],
}));

it('takes the IPv6 and the IPv4 addresses of a name in turn', async () => {
  const found = await resolveHost({ host: 'zk', port: 2181, label: 'zk:2181' });
  const families = found.map(({ ip }) => (ip.includes(':') ? 6 : 4));
  const other = families[0] === 6 ? 4 : 6;
  expect(families).toEqual([families[0], other, families[0], other]);
});
