import assert from 'node:assert/strict';
import { Controller, Get, StreamableFile } from '@nestjs/common';
import { currentLease, DistributedLock, LockService } from 'nestjs-zookeeper';
import { type Check, listenOnAnyPort, withInstances } from '../support/instances.js';

@Controller()
class Reports {
  @Get('report')
  @DistributedLock('report')
  async report() {
    return new StreamableFile(Buffer.from(`${currentLease()!.key}\n`.repeat(20_000)));
  }
}

export const check: Check = (platform) =>
  withInstances(platform, { controllers: [Reports] }, listenOnAnyPort, async ({ one, other }) => {
    const read = async () => (await fetch(`${await one.getUrl()}/report`)).text();
    for (const text of await Promise.all([read(), read()])) {
      assert.equal(text, 'report\n'.repeat(20_000));
    }
    await using _lease = await other.get(LockService).acquire('report', { wait: 5_000 });
  });
