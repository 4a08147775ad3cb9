import type { ScenarioRun } from './scenario-run.js';

/** The leader is killed. When its session has expired, another instance leads. */
export async function killedLeader(run: ScenarioRun<'killed-leader'>): Promise<void> {
  const { fleet, reports } = run.context;
  const leader = reports.leader ?? (await run.next('leader')).instance;
  run.caption('start', leader);
  await run.readingTime();

  fleet.slot(leader).kill();
  run.caption('kill', leader);
  const next = await run.next('leader', ({ instance }) => instance !== leader);
  run.caption('elected', next.instance);
  await run.readingTime();

  run.caption('revive', leader);
  await fleet.revive(leader);
  run.end(reports.leader === next.instance, leader);
}
