import type { TlsOptions } from '../../client/transport/tls.js';
import { connectedAt, fourLetterWord } from './four-letter-word.js';
import { FLAGS } from './probe-session.js';
import type { ProbeDirectory } from './rights.js';
import { type Check, showMilliseconds } from './report.js';
import type { UsableServer } from './servers.js';

/** Milliseconds. */
const MAX_SKEW = 1000;
/** The measurement with the shortest round trip counts. */
const ROUNDS = 3;

/** The difference of the clock of a server from ours, milliseconds. */
interface Difference {
  readonly offset: number;
  readonly error: number;
}

/**
 * Compares the clock that stamps new znodes, and that of each server that allows the four-letter word `cons`, with ours. The
 * leader of ZooKeeper stamps them; of other servers, the one that receives the request (KeeperDispatcher::putRequest).
 */
export async function checkClocks(
  servers: readonly UsableServer[],
  probeDirectory: ProbeDirectory | undefined,
  tls: TlsOptions | undefined,
  signal: AbortSignal,
): Promise<Check[]> {
  const checks: Check[] = [];
  const [first] = servers as [UsableServer];
  const leader =
    first.session.kind === 'zookeeper'
      ? servers.find(({ srvr }) => srvr?.mode === 'leader' || srvr?.mode === 'standalone')
      : first;
  const subject = leader ? leader.label : 'leader';
  if (probeDirectory) {
    checks.push(checkOf(subject, await stampedBy(probeDirectory), 'znodes'));
  } else {
    const found = 'not measured, because a znode cannot be created and deleted';
    checks.push({ check: 'clock', subject, status: 'unknown', found });
  }
  for (const server of servers) {
    if (probeDirectory && server === leader) continue;
    const { address, session, connected, label } = server;
    const answer = await fourLetterWord(address, 'cons', tls, signal);
    const time = connectedAt(answer, session.credentials.id);
    if (time === undefined || !connected) continue;
    checks.push(checkOf(label, difference(time, ...connected), 'connections'));
  }
  return checks;
}

/** Whether the clocks of two servers differ too much. */
export function serversDiffer(clocks: readonly Check[]): boolean {
  const ranges = clocks.flatMap(({ data }) => (data ? [data as Record<string, number>] : []));
  const latest = Math.max(...ranges.map(({ offsetMs, errorMs }) => offsetMs! - errorMs!));
  const earliest = Math.min(...ranges.map(({ offsetMs, errorMs }) => offsetMs! + errorMs!));
  return latest - earliest > MAX_SKEW;
}

/** Measures by the creation time of a znode. */
async function stampedBy({ session, directory }: ProbeDirectory): Promise<Difference> {
  const measured: Difference[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const path = `${directory}/clock`;
    const before = Date.now();
    await session.create(path, FLAGS.ephemeral);
    const after = Date.now();
    const stat = await session.exists(path);
    await session.delete(path);
    if (stat) measured.push(difference(stat.ctime, before, after));
  }
  return measured.sort((a, b) => a.error - b.error)[0]!;
}

/** The server read its clock between `before` and `after`. Each clock shows whole milliseconds. */
function difference(time: number, before: number, after: number): Difference {
  return { offset: time - (before + after) / 2, error: (after - before) / 2 + 1 };
}

function checkOf(subject: string, { offset, error }: Difference, source: string): Check {
  const isSkewed = Math.abs(offset) - error > MAX_SKEW;
  const isEqual = Math.abs(offset) <= error;
  const direction = offset > 0 ? 'ahead of' : 'behind';
  return {
    check: 'clock',
    subject,
    status: isSkewed ? 'limit' : 'ok',
    found: isEqual
      ? `equal to this machine's clock (± ${showMilliseconds(error)})`
      : `${showMilliseconds(Math.abs(offset))} ${direction} the clock of this machine, ± ${showMilliseconds(error)}`,
    advice: isSkewed
      ? 'synchronize the clocks with NTP, on the server or here: logs and the times that commands print depend on them, locks do not'
      : undefined,
    data: { offsetMs: Math.round(offset), errorMs: Math.round(error), source },
  };
}
