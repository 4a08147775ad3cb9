import { Controller, Get, Injectable, Logger } from '@nestjs/common';
import { DistributedLock } from 'nestjs-zookeeper';
import { describe, expect, vi } from 'vitest';
import { Gate } from '../../support/gate.js';
import { get } from '../../support/http-calls.js';
import { useApps } from '../../support/nest-apps.js';
import { useServer } from '../../support/servers.js';
import { afterEach, it } from '../../support/virtual-time.js';

const server = useServer();
const apps = useApps(server);
afterEach(() => vi.restoreAllMocks());

/** Returns a function whose promises resolve when it was called `count` times. */
function meeting(count: number): () => Promise<void> {
  const gate = new Gate();
  return () => {
    if (--count === 0) gate.open();
    return gate.pass();
  };
}

describe('a deadlock of an application', () => {
  it('is logged once, with its keys and holders', async () => {
    const bothHold = meeting(2);

    @Injectable()
    class Accounts {
      @DistributedLock((account: string) => account, { wait: 2000 })
      async book(_account: string): Promise<string> {
        return 'booked';
      }
    }

    @Controller()
    class Transfers {
      constructor(private readonly accounts: Accounts) {}

      @Get('gold')
      @DistributedLock('gold')
      async toSilver(): Promise<string> {
        await bothHold();
        return this.accounts.book('silver');
      }

      @Get('silver')
      @DistributedLock('silver')
      async toGold(): Promise<string> {
        await bothHold();
        return this.accounts.book('gold');
      }
    }

    const warn = vi.spyOn(Logger.prototype, 'warn').mockImplementation(() => {});
    const details = { name: 'bank-1' };
    const app = await apps.start(
      { controllers: [Transfers], providers: [Accounts] },
      { defaults: { details } },
    );
    await Promise.all(['gold', 'silver'].map((path) => get(app, `/${path}`)));
    const lines = warn.mock.calls.map(([line]) => String(line));
    const reports = lines.filter((line) => line.startsWith('deadlock: '));
    expect(reports).toHaveLength(1);
    expect(reports[0]).toMatch(/"gold" is held by this process \(\d+\) \(bank-1\)/);
    expect(reports[0]).toMatch(/"silver" is held by this process/);
  });
});
