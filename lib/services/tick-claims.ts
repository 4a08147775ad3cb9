import { ifExists, isCode } from '../client/errors.js';
import type { ZkClient } from '../client/index.js';
import { parentOf } from '../client/validation.js';
import type { Term } from '../recipes/index.js';

/**
 * Claims a tick of a job for a term, before the job runs. The znode at `path` has the time of the latest claimed tick, and each
 * claim must be later: so no tick is claimed twice, not after a change of the leader, a restart or a clock that was set back.
 * The znode is written by a transaction of the term, so a leader that was paused claims nothing after the next one leads.
 *
 * @param tick milliseconds since 1970
 * @param runsFirst what to return if no tick of the job was claimed before
 * @returns whether the job is to run: the term has claimed the tick
 * @throws NotLeaderError if the term is over; ConnectionError: if it has `maybeApplied`, the tick may be claimed, and must not run
 */
export async function claimTick(
  client: ZkClient,
  term: Term,
  path: string,
  tick: number,
  runsFirst: boolean,
): Promise<boolean> {
  const data = String(tick);
  for (;;) {
    const claimed = await ifExists(client.get(path));
    if (claimed && Number(claimed.data) >= tick) return false;
    try {
      if (claimed) {
        await term.transaction([{ set: path, data, version: claimed.stat.version }]);
        return true;
      }
      await client.ensureContainers(parentOf(path));
      await term.transaction([{ create: path, data }]);
      return runsFirst;
    } catch (error) {
      // Another call of this term has claimed a tick, or the server has reaped the container.
      const isOvertaken = isCode(error, 'BAD_VERSION') || isCode(error, 'NODE_EXISTS');
      if (!isOvertaken && !isCode(error, 'NO_NODE')) throw error;
    }
  }
}
