import type { Story } from './story.js';

/** The leader is killed. When its session has expired, another instance leads. */
export async function killedLeader(story: Story<'killed-leader'>): Promise<void> {
  const { fleet, reports } = story.stage;
  const leader = reports.leader ?? (await story.next('leader')).instance;
  story.caption('start', leader);
  await story.readingTime();

  fleet.slot(leader).kill();
  story.caption('kill', leader);
  const next = await story.next('leader', ({ instance }) => instance !== leader);
  story.caption('elected', next.instance);
  await story.readingTime();

  story.caption('revive', leader);
  await fleet.revive(leader);
  story.caption('end', leader);
}
