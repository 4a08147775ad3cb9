import { Injectable } from '@nestjs/common';
import { Cron, ScheduleModule } from '@nestjs/schedule';
import { currentTerm, LeaderOnly, LeaderService } from 'nestjs-zookeeper';
import { expect } from 'vitest';
import { useApps } from '../../support/nest-apps.js';
import { useServer } from '../../support/servers.js';
import { currentWorld, it } from '../../support/virtual-time.js';

const apps = useApps(useServer());
const SESSION_TIMEOUT = 4_000;

it('a @LeaderOnly cron job on three instances runs once per second, except during the failover after the leader crashes', async () => {
  const ran: { second: number; instance: string; token: bigint }[] = [];
  @Injectable()
  class Jobs {
    @Cron('* * * * * *')
    @LeaderOnly('every-second')
    async everySecond(): Promise<void> {
      const { participantId: instance, fencingToken: token } = currentTerm()!;
      ran.push({ second: Math.floor(Date.now() / 1000), instance, token });
    }
  }
  const world = currentWorld();
  const metadata = { imports: [ScheduleModule.forRoot()], providers: [Jobs] };
  const instances = ['one', 'two', 'three'].map((name) => world.process(name));
  for (const instance of instances) {
    const options = { participantId: instance.name, sessionTimeout: SESSION_TIMEOUT };
    const app = await instance.run(() => apps.start(metadata, options, instance));
    await instance.run(() => void app.get(LeaderService).isLeader('every-second'));
  }
  await expect.poll(() => ran.length).toBe(10);
  const leader = instances.find(({ name }) => name === ran[0]!.instance)!;
  leader.crash({ silently: true });
  await world.sleep(20_000);

  const before = ran.filter(({ instance }) => instance === leader.name);
  const after = ran.slice(before.length);
  for (const term of [before, after]) {
    expect(new Set(term.map(({ token }) => token)).size).toBe(1);
    expect(term.map(({ second }) => second - term[0]!.second)).toEqual([...term.keys()]);
  }
  expect(before).toHaveLength(10);
  const [last, next] = [before.at(-1)!, after[0]!];
  expect(next.instance).not.toBe(last.instance);
  expect(next.token).toBeGreaterThan(last.token);
  // The session expires less than a second late.
  expect(next.second - last.second - 1).toBe(SESSION_TIMEOUT / 1000);
  expect(after).toHaveLength(20 - SESSION_TIMEOUT / 1000);
});
