import { readlinkSync } from 'node:fs';
import { hostname } from 'node:os';
import { quotedKey } from '../client/errors.js';
import type { Session, ZkClient } from '../client/index.js';
import { isRunning, isSimulated } from '../client/process-state.js';
import { deadHolders } from './diagnostics.js';
import { ownershipBy } from './ownership.js';
import type { BlockingNode } from './queue.js';
import type { Subject } from './types.js';

/*
 * A process that ends without closing its session keeps its locks until the session times out. After a restart, the next
 * process waits until then. It detects this from the host and the process id in the znode ahead:
 *
 *   - the host is this one, and process ids of the host name are comparable (`namesProcesses`);
 *   - no process has that id, or this process has it and is younger than the znode, as in a restarted container.
 *
 * Only an acquire that is blocked reads the znode ahead, so the check sends nothing and costs nothing without contention.
 */

/** When a client first saw a znode whose process has ended, by `performance.now()`. */
const firstSeen = new WeakMap<ZkClient, Map<string, number>>();
const MAX_SEEN = 1000;

/**
 * If the process of the znode ahead has ended, publishes and returns a sentence that says so, with the time until its
 * session ends. The time assumes that the session has the timeout of our own.
 */
export function reportDeadHolder(
  client: ZkClient,
  subject: Subject,
  { path, data, stat, isFirst }: BlockingNode,
  session: Session,
): string | undefined {
  if (stat.ephemeralOwner === session.id || isSimulated()) return undefined;
  const pid = deadProcess(path, data, stat.ctime);
  if (pid === undefined) return undefined;
  let seen = firstSeen.get(client);
  if (!seen) firstSeen.set(client, (seen = new Map()));
  const now = performance.now();
  const since = seen.get(path) ?? now;
  const first = !seen.has(path);
  if (first && seen.size >= MAX_SEEN) seen.delete(seen.keys().next().value!);
  seen.set(path, since);

  // A process with our own id ended before this process started, any other one before the first look at its znode.
  const endedFor = pid === process.pid ? process.uptime() * 1000 : now - since;
  const left = Math.ceil(Math.max(0, session.timeout - endedFor) / 1000);
  const age = Math.round(Math.max(0, Date.now() - stat.ctime) / 1000);
  const holds = subject.noun === 'election' ? 'is led' : 'is held';
  const what = `${subject.noun} ${quotedKey(subject.key)} ${isFirst ? holds : 'is requested before this one'}`;
  const message = `${what} by process ${pid} of this host, which has ended; its znode is ${age} s old, and its session ends in at most ${left} s`;
  deadHolders.publish({ client, path, first, message });
  return message;
}

/** Whether a process was one of this host and has ended. False if that is unknown, and for this process. */
export function hasEnded({ host, pid }: { host?: unknown; pid?: unknown }): boolean {
  if (host !== hostname() || typeof pid !== 'number' || !namesProcesses()) return false;
  return pid !== process.pid && !isRunning(pid);
}

/** Returns the id of the process that created a znode, if it was a process of this host that has ended. */
function deadProcess(path: string, data: Buffer, ctime: number): number | undefined {
  const creator = creatorOf(data.toString());
  if (hasEnded(creator)) return creator.pid as number;
  if (creator.host !== hostname() || creator.pid !== process.pid || !namesProcesses())
    return undefined;
  const isOurs = ownershipBy(path.slice(path.lastIndexOf('/') + 1)) !== undefined;
  // As in a restarted container.
  return !isOurs && ctime < Date.now() - process.uptime() * 1000 ? process.pid : undefined;
}

/** Parses the data of a lock, or the default id of a candidate. An id such as `host:3000` has the same form, so only candidates with the default id ask. */
function creatorOf(text: string): { host?: unknown; pid?: unknown } {
  const [, host, pid] = /^([^{].*):(\d+)$/.exec(text) ?? [];
  if (host) return { host, pid: Number(pid) };
  try {
    return (JSON.parse(text) as object | null) ?? {};
  } catch {
    return {};
  }
}

/** The inodes of the namespaces of a Linux machine that is not in a container. */
const INITIAL = { uts: 4026531838, pid: 4026531836 };

/**
 * Returns false in a container that shares the host name of its machine but not the process ids: two of them would have
 * the same host name and each a process 1.
 */
function namesProcesses(): boolean {
  try {
    const [hostNames, processes] = (['uts', 'pid'] as const).map(
      (kind) => readlinkSync(`/proc/self/ns/${kind}`) === `${kind}:[${INITIAL[kind]}]`,
    );
    return hostNames === processes;
  } catch {
    // Not Linux.
    return true;
  }
}
