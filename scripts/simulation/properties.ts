import { check } from '../chaos/checker.js';
import type { Lease } from '../chaos/histories.js';
import { deletionDetectionTime, type FaultWindows } from './fault-windows.js';
import type { History, LeaseRecord, LimitedCall, Request } from './history.js';
import { ROOT } from './jobs.js';
import type { JobContext, Member, Workload } from './workload.js';
import {
  canRemoveWatches,
  notificationTime,
  PERMITS,
  replyTime,
  resumesSessions,
  type Setting,
  TICK_TIME,
} from './setting.js';

/*
 * The properties that are checked at the end of a run. They are in one file although it is long, because they share the
 * rules for the times in which a fault excuses a violation.
 */

type World = import('nestjs-zookeeper/testing').World;
type SimulatedProcess = import('nestjs-zookeeper/testing').SimulatedProcess;

/** Milliseconds for which an acquire with `wait: 0` may wait for the end of a linger. */
const TRY_LIMIT = 600;
/**
 * A latency in milliseconds. Over a slower network, a `tryAcquire` of a semaphore cannot wait until the requests before
 * it have been handled.
 */
const SLOW_NETWORK = 5;
/** The timers of a connected client: its keep-alive and its session deadline. */
const TIMERS_OF_CLIENT = 2;

/** Checks the history of a run against all properties of requests and leases. */
export function checkHistory(history: History, setting: Setting, faultWindows: FaultWindows): void {
  checkSafety(history, setting, faultWindows);
  const isFaultFree = (from: number, until: number) => faultWindows.isFaultFree(from, until);
  for (const request of history.requests) {
    checkRequest(request, history, setting, faultWindows, isFaultFree);
  }
  for (const call of history.limitedCalls) checkLimitedCall(call, history, setting, faultWindows);
  for (const record of history.leases) checkLease(record, history, faultWindows);
  for (const [key, contenders] of byKey(history)) {
    if (contenders[0]!.request.mode === 'lead') continue;
    checkTries(key, contenders, history, setting, isFaultFree);
    checkFreeLocks(key, contenders, history, setting, isFaultFree);
  }
  checkSuccession(history, setting, faultWindows);
  checkDeletions(history, setting, faultWindows);
  if (resumesSessions(setting)) checkReplacedSessions(history, faultWindows);
  checkRevocations(history, setting, faultWindows);
}

/** Checks exclusion, permits, late work and fencing tokens by the checker of the chaos command. */
function checkSafety(history: History, setting: Setting, faultWindows: FaultWindows): void {
  const leases = history.leases.map((record, index): Lease => ({
    id: `${record.incarnation.name}.${index}`,
    worker: record.incarnation.name,
    life: 1,
    key: record.key,
    mode: record.mode === 'lead' ? 'exclusive' : record.mode,
    count: record.count,
    token: record.token,
    held: record.ended > record.granted,
    granted: record.granted,
    ended: record.ended,
    how: record.outcome === 'lost' ? 'lost' : 'releasing',
    writes: record.workTimes,
  }));
  const checks = check(
    {
      leases,
      stored: [],
      faults: faultWindows.toCheckerFaults().map((fault) => ({ ...fault, healed: fault.until })),
      rounds: [],
      quiets: [],
      woke: [],
      nested: [],
      deadlocks: [],
      broken: [],
      transports: [],
      orphans: [],
    },
    { sessionTimeout: setting.sessionTimeout, tickTime: TICK_TIME },
  );
  // The functions below replace the other checks, because the simulator records more than the chaos command.
  const names = [
    'no two leases overlap',
    'permits are never exceeded',
    'no work starts after the next grant',
    'tokens rise',
  ];
  for (const { name, violations } of checks) {
    if (!names.includes(name)) continue;
    for (const message of violations) history.recordViolation(name, message);
  }
}

/** Checks when a request settled, and its error. */
function checkRequest(
  request: Request,
  history: History,
  setting: Setting,
  faultWindows: FaultWindows,
  isFaultFree: (from: number, until: number) => boolean,
): void {
  const { asked, settled, error, incarnation, key, options, abortsAt } = request;
  if (incarnation.ended < Infinity && settled === Infinity) return;
  const end = Math.min(settled, history.world.now);
  checkError(request, history);
  const disturbed = isFaultFree(asked, end) ? 0 : setting.sessionTimeout / 2;
  const late = end - abortsAt - replyTime(setting) - disturbed;
  if (
    late > 0 &&
    !faultWindows.wasPaused(incarnation.name, abortsAt, end) &&
    !request.partOfMultiLock
  ) {
    const how = `${incarnation.name} waited for ${key} ${(end - abortsAt).toFixed(1)} ms after its signal had aborted`;
    history.recordViolation('a signal ends a wait', how, end);
  }
  if (!isFaultFree(asked, end) || incarnation.ended < end) return;
  const { recipes } = history.library;
  const expected =
    error === undefined ||
    error instanceof recipes.LockBusyError ||
    error instanceof recipes.LockTimeoutError ||
    error instanceof recipes.WaitCancelledError ||
    error instanceof recipes.SelfDeadlockError ||
    error instanceof recipes.LeaseLostError;
  if (!expected) {
    const why = `${incarnation.name} could not acquire ${key}: ${String(error)}`;
    history.recordViolation('no acquire fails without a fault', why, end);
  }
  const { wait = Infinity } = options;
  const longest = wait === 0 ? TRY_LIMIT : wait / incarnation.clockRate;
  const took = end - asked;
  if (took > longest + replyTime(setting)) {
    const how = `${incarnation.name} waited ${took.toFixed(1)} ms for ${key} with a wait of ${wait} ms`;
    history.recordViolation('a wait ends in time', how, end);
  }
  if (error instanceof recipes.LockTimeoutError && took < wait / incarnation.clockRate - 2) {
    const how = `${incarnation.name} timed out on ${key} after ${took.toFixed(1)} of ${wait} ms`;
    history.recordViolation('a wait does not time out early', how, end);
  }
}

/** Checks that a call settled within its limit. Only a pause of its process excuses a later end. */
function checkLimitedCall(
  { asked, incarnation, limit, settled, what }: LimitedCall,
  history: History,
  setting: Setting,
  faultWindows: FaultWindows,
): void {
  const end = Math.min(settled, incarnation.ended, history.world.now);
  const latest = asked + limit / incarnation.clockRate + replyTime(setting);
  if (end <= latest || faultWindows.wasPaused(incarnation.name, asked, end)) return;
  const how = `${what} of ${incarnation.name} took ${(end - asked).toFixed(1)} ms with a wait of ${limit} ms`;
  history.recordViolation('a wait ends in time', how, end);
}

/** Checks that no wait failed because a session expired. The client must continue the wait in its next session. */
function checkError({ error, mode, key, incarnation }: Request, history: History): void {
  const { recipes } = history.library;
  if (!(error instanceof recipes.SessionExpiredError) || mode === 'lead') return;
  const why = `${incarnation.name} could not acquire ${key}: ${error.message}`;
  history.recordViolation('a wait continues in the next session', why);
}

/** Checks how a lease ended, and when. */
function checkLease(record: LeaseRecord, history: History, faultWindows: FaultWindows): void {
  const { incarnation, key, mode, granted, ended, outcome, request } = record;
  const { holdAtMost = Infinity } = request.options;
  const limit = granted + holdAtMost / incarnation.clockRate;
  const reachedLimit = ended >= limit - 2;
  if (outcome === 'lost' && mode !== 'lead' && !reachedLimit && ended > granted) {
    if (!faultWindows.explainsSessionLoss(incarnation.name, ended)) {
      const why = `${incarnation.name} lost ${key}: ${reasonOf(record)}`;
      history.recordViolation('no lease is lost without a reason', why, ended);
    }
  }
  if (
    outcome === 'lost' &&
    mode !== 'lead' &&
    incarnation.shutdownStarted <= ended &&
    incarnation.waitsForHolders
  ) {
    if (!faultWindows.affectsExcept('shut down', incarnation.name, granted - 1, ended)) {
      const why = `${incarnation.name} lost ${key} because of its own shutdown`;
      history.recordViolation('a shutdown waits for holders', why, ended);
    }
  }
  if (Math.min(ended, history.world.now) > limit + 10 && incarnation.ended > limit + 10) {
    if (!faultWindows.wasPaused(incarnation.name, granted, ended) && !request.partOfMultiLock) {
      const why = `${incarnation.name} held ${key} for ${(ended - granted).toFixed(1)} ms with a limit of ${holdAtMost} ms`;
      history.recordViolation('holdAtMost ends a lease', why, ended);
    }
  }
}

function reasonOf({ lease }: LeaseRecord): string {
  const reason: unknown = lease.signal.reason;
  return reason instanceof Error ? reason.message : 'without a reason';
}

/** A request with its lease, and the time for which it can block other requests for the same key. */
interface Contender {
  readonly request: Request;
  readonly record: LeaseRecord | undefined;
  /** The time from which on it blocks no other request. */
  readonly blocksUntil: number;
}

function byKey(history: History): Map<string, Contender[]> {
  const records = new Map(history.leases.map((record) => [record.request, record]));
  const keys = new Map<string, Contender[]>();
  for (const request of history.requests) {
    const record = records.get(request);
    const contender = { request, record, blocksUntil: blocksUntilOf(request, record) };
    const known = keys.get(request.key);
    if (known) known.push(contender);
    else keys.set(request.key, [contender]);
  }
  return keys;
}

function blocksUntilOf(request: Request, record: LeaseRecord | undefined): number {
  if (!record) return request.settled;
  const { holdAtLeast = 0 } = request.options;
  const kept = record.granted + holdAtLeast / record.incarnation.clockRate;
  // The node of a lost lease is deleted at once. A released lease blocks others until release() has resolved.
  const freed = record.outcome === 'released' ? record.freed : record.ended;
  return Math.max(freed, kept);
}

function conflicts(a: Request, b: Request): boolean {
  return a.mode !== 'read' || b.mode !== 'read';
}

/** Checks that an acquire with `wait: 0` failed only if another request held the lock or waited for it. */
function checkTries(
  key: string,
  contenders: readonly Contender[],
  history: History,
  setting: Setting,
  isFaultFree: (from: number, until: number) => boolean,
): void {
  const { LockBusyError } = history.library.recipes;
  const notice = 2 * notificationTime(setting);
  const slow = setting.latency[1] > SLOW_NETWORK;
  for (const { request, record } of contenders) {
    const { asked, settled, error, options, incarnation } = request;
    if (
      record ||
      request.partOfMultiLock ||
      options.wait !== 0 ||
      !(error instanceof LockBusyError)
    )
      continue;
    if (!isFaultFree(asked, settled)) continue;
    // A revocation replaces the data of a lingering node, so other clients cannot see that the node lingers.
    const revoked = history.revocations.some(
      (each) => each.key === key && each.from <= settled && each.until + notice >= asked,
    );
    if (revoked) continue;
    const others = contenders.filter(
      (other) =>
        other.request !== request &&
        conflicts(request, other.request) &&
        other.request.asked <= settled &&
        other.blocksUntil + notice >= asked,
    );
    const taken = others.reduce((sum, other) => sum + other.request.count, request.count);
    // Over a slow network, other requests for permits may delay this one for too long, even if permits are free.
    const free = request.mode === 'permit' && !slow ? taken <= PERMITS : others.length === 0;
    if (!free) continue;
    const why = `${incarnation.name} tried to acquire ${key} (${request.mode}) and was refused, although no other request held it or waited for it`;
    history.recordViolation('a try for a free lock succeeds', why, settled);
  }
}

/** Checks that each request was granted soon after the last request that blocked it had ended. */
function checkFreeLocks(
  key: string,
  contenders: readonly Contender[],
  history: History,
  setting: Setting,
  isFaultFree: (from: number, until: number) => boolean,
): void {
  // The creates and deletes of many strict callers travel in groups, and later ones wait until a group has its reply.
  const messages = setting.strictProbability > 0 ? 30 : 20;
  const limit = messages * setting.latency[1] + 2 * setting.lag[1] + 100;
  const all = new Blockers(contenders);
  const writers = new Blockers(contenders.filter(({ request }) => request.mode !== 'read'));
  for (const { request, record } of contenders) {
    if (!record || request.partOfMultiLock) continue;
    const { granted, incarnation } = record;
    if (granted - request.asked <= limit || !isFaultFree(request.asked, granted)) continue;
    const before = (request.mode === 'read' ? writers : all).lastEndBefore(granted);
    const late = granted - Math.max(request.asked, Math.min(before, granted));
    if (late <= limit) continue;
    const why = `${incarnation.name} was granted ${key} (${request.mode}) ${late.toFixed(1)} ms after it became free`;
    history.recordViolation('a free lock is granted soon', why, granted);
  }
}

/**
 * Finds the time at which all earlier blockers of a grant had ended. A request that was granted blocks from its grant
 * on, another one from its call on.
 */
class Blockers {
  readonly #starts: number[] = [];
  /** For each start, the time at which all blockers up to this one had ended. */
  readonly #ends: number[] = [];

  constructor(contenders: readonly Contender[]) {
    let last = 0;
    const sorted = contenders
      .map(({ request, record, blocksUntil }) => {
        // A multi-lock may hold the lock long before its own grant.
        const start = record && !request.partOfMultiLock ? record.granted : request.asked;
        return { start, blocksUntil };
      })
      .sort((a, b) => a.start - b.start);
    for (const { start, blocksUntil } of sorted) {
      this.#starts.push(start);
      this.#ends.push((last = Math.max(last, blocksUntil)));
    }
  }

  /** Returns the time at which all blockers that started before a time had ended; 0 if there were none. */
  lastEndBefore(time: number): number {
    let [low, high] = [0, this.#starts.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#starts[middle]! < time) low = middle + 1;
      else high = middle;
    }
    return low === 0 ? 0 : this.#ends[low - 1]!;
  }
}

/**
 * Checks that the next leader of a selector started after the last one had stopped, and that `holdAtLeast` was kept.
 */
function checkSuccession(history: History, setting: Setting, faultWindows: FaultWindows): void {
  const last = new Map<string, LeaseRecord>();
  const sorted = history.leases
    .filter((record) => record.ended > record.granted)
    .sort((a, b) => a.granted - b.granted);
  for (const record of sorted) {
    const before = last.get(record.key);
    last.set(record.key, record);
    if (!before || before.incarnation === record.incarnation) continue;
    // A connection may break shortly after a fault of its server.
    const from = before.granted - replyTime(setting);
    const isUndisturbed =
      before.incarnation.ended > record.granted &&
      !faultWindows.affects(before.incarnation.name, from, record.granted) &&
      !faultWindows.hasUnnoticedLoss(before.incarnation.name, before.granted) &&
      !faultWindows.hasUnnoticedLoss(record.incarnation.name, record.granted);
    if (!isUndisturbed) continue;
    if (before.stopped !== undefined && before.stopped > record.granted) {
      const why = `${record.incarnation.name} led ${record.key} before ${before.incarnation.name} had stopped`;
      history.recordViolation(
        'a leader starts after the last one has stopped',
        why,
        record.granted,
      );
    }
    const { holdAtLeast = 0 } = before.request.options;
    const kept = before.granted + holdAtLeast / before.incarnation.clockRate;
    const excluded = record.mode !== 'permit' && (record.mode !== 'read' || before.mode !== 'read');
    if (excluded && before.outcome === 'released' && record.granted < kept - 2) {
      const why = `${record.incarnation.name} was granted ${record.key} ${(kept - record.granted).toFixed(1)} ms before the holdAtLeast of ${before.incarnation.name} was over`;
      history.recordViolation('holdAtLeast keeps a lock taken', why, record.granted);
    }
  }
}

/** Checks that a lease ended soon after another client had deleted its node. */
function checkDeletions(history: History, setting: Setting, faultWindows: FaultWindows): void {
  for (const { until: at, confirmed, key, session } of history.deletions) {
    if (!confirmed) continue;
    const noticed = at + deletionDetectionTime(setting);
    for (const record of history.leases) {
      const { incarnation, granted, ended, mode } = record;
      if (record.key !== key || record.session !== session || mode === 'read') continue;
      if (granted > at || ended < noticed || incarnation.ended < noticed) continue;
      // After a fault the client may still connect again.
      const undisturbed = at - faultWindows.reconnectionTime(incarnation.name);
      if (faultWindows.affectsExcept('delete node', incarnation.name, undisturbed, noticed))
        continue;
      const why = `${incarnation.name} held ${key} for ${(ended - at).toFixed(1)} ms after its node was deleted`;
      history.recordViolation('a lease ends when its node is deleted', why, ended);
    }
  }
}

/** Checks that a client with a new session has closed the last one, whose znodes block others otherwise. */
function checkReplacedSessions(history: History, faultWindows: FaultWindows): void {
  for (const { session, incarnation, from, until, remains } of history.replacedSessions) {
    const ended = Math.min(incarnation.ended, incarnation.shutdownStarted);
    if (!remains || ended <= until) continue;
    if (faultWindows.affects(incarnation.name, from, until)) continue;
    const why = `${incarnation.name} had a new session for ${(until - from).toFixed(1)} ms, but session 0x${session} still existed`;
    history.recordViolation('a client closes the session that it replaces', why, until);
  }
}

/** Checks that a holder was notified soon after another client had asked it to release its lock. */
function checkRevocations(history: History, setting: Setting, faultWindows: FaultWindows): void {
  for (const { key, from, until, confirmed } of history.revocations) {
    const noticed = until + deletionDetectionTime(setting);
    if (!confirmed || !faultWindows.isFaultFree(from, noticed)) continue;
    for (const record of history.leases) {
      const { revoked, incarnation, granted, ended } = record;
      if (record.key !== key || revoked === undefined || revoked <= noticed) continue;
      if (granted > from || ended <= noticed || incarnation.ended <= noticed) continue;
      const why = `${incarnation.name} was not notified within ${(noticed - from).toFixed(1)} ms that it should release ${key}`;
      history.recordViolation('a request for revocation reaches the holder', why, noticed);
    }
  }
}

/** Checks the state at the end of a run, after all faults and all requests. */
export async function checkEnd(
  world: World,
  history: History,
  workload: Workload,
  setting: Setting,
): Promise<void> {
  const { running } = workload;
  checkSettled(history);
  const nest = setting.processes.some((process) => process.nest);
  if (!nest) await checkLeaders(history, running);
  checkCandidates(history, running, nest);
  await checkLeft(world, history, workload, setting);
}

/** Records an error that the library must not report, with its stack. */
export function recordUnexpected(
  error: unknown,
  { history, incarnation }: Pick<JobContext, 'history' | 'incarnation'>,
): void {
  const what = error instanceof Error ? error.stack : String(error);
  history.recordViolation('no unexpected error is reported', `${incarnation.name}: ${what}`);
}

/** Checks that each request has settled, unless its process has ended. */
export function checkSettled(history: History): void {
  for (const { key, mode, incarnation, asked, settled } of history.requests) {
    if (settled < Infinity || incarnation.ended < Infinity) continue;
    const why = `${incarnation.name} has waited for ${key} (${mode}) since ${asked.toFixed(1)} ms`;
    history.recordViolation('no acquire waits forever', why);
  }
}

/** Ends the programs, and checks that they leave nothing: first with open connections, then without. */
export async function checkLeft(
  world: World,
  history: History,
  workload: Workload,
  setting: Setting,
): Promise<void> {
  const { running } = workload;
  const nest = setting.processes.some((process) => process.nest);
  await Promise.all(
    running.map((member) => inProcess(member, () => member.program?.leaveElections())),
  );
  // A holder that has lost its lease works for up to 60 ms more, see jobs.ts.
  await world.sleep(4 * notificationTime(setting) + 80);
  if (!nest) await checkIdle(world, history, running, setting);
  const sessions = new Set(running.map(({ incarnation }) => incarnation.session));
  await Promise.all(running.map((member) => inProcess(member, () => member.program?.close())));
  // A holder that has lost its lease works for up to 60 ms more, see jobs.ts.
  await world.sleep(4 * notificationTime(setting) + 80);
  checkClosed(world, history, running, sessions);
}

async function inProcess({ process }: Member, act: () => Promise<void> | undefined): Promise<void> {
  await process.run(async () => act());
}

/** Checks that exactly one participant of the latch leads. */
async function checkLeaders(history: History, running: readonly Member[]): Promise<void> {
  // Whether a lease is held depends on the clock of its process.
  const leading = await Promise.all(
    running.map(({ incarnation, process }) =>
      process.run(
        () =>
          history.heldBy(incarnation).filter(({ key, lease }) => key === 'latch' && lease.held)
            .length,
      ),
    ),
  );
  const count = leading.reduce((sum, each) => sum + each, 0);
  if (count === 1) return;
  history.recordViolation('an election has one leader', `the latch has ${count} leaders`);
}

/**
 * Checks that every running process has a node in the election. A candidate whose node was deleted while it waited
 * notices that when its turn comes.
 */
function checkCandidates(history: History, running: readonly Member[], nest: boolean): void {
  const path = nest ? '/app/elections/close-orders' : `${ROOT}/latch`;
  const deleted = new Set(history.deletions.map(({ key, session }) => `${key} ${session}`));
  const present = new Set(history.world.children(path).map(({ session }) => session));
  for (const { name, incarnation } of running) {
    if (incarnation.session !== undefined && present.has(incarnation.session)) continue;
    if (deleted.has(`latch ${incarnation.session}`)) continue;
    history.recordViolation(
      'every participant has a node in the election',
      `${name} has no node below ${path}`,
    );
  }
}

/** Checks that idle clients have no znodes, no watches and no timers beyond those of their connections. */
async function checkIdle(
  world: World,
  history: History,
  running: readonly Member[],
  setting: Setting,
): Promise<void> {
  const sessions = new Set(running.map(({ incarnation }) => incarnation.session));
  for (const { path, session } of world.znodes()) {
    if (session !== undefined && sessions.has(session)) {
      history.recordViolation('no znode is left', `${path} of session 0x${session} is left`);
    }
  }
  if (world.watchCount > 0 && canRemoveWatches(setting)) {
    history.recordViolation(
      'no watch is left',
      `${world.watchCount} watches are left on the servers`,
    );
  }
  for (const { process, name } of running) {
    const count = await fewestTimers(world, process);
    if (count <= TIMERS_OF_CLIENT) continue;
    const why = `${count} timers of ${name} are left, not ${TIMERS_OF_CLIENT}`;
    history.recordViolation('no timer is left', why);
  }
}

/** Returns the smallest of several counts, because a client has one more timer just before it sends its keep-alive. */
async function fewestTimers(world: World, process: SimulatedProcess): Promise<number> {
  let fewest = Infinity;
  for (let count = 0; count < 4; count++) {
    fewest = Math.min(fewest, process.timers.size);
    await world.sleep(7);
  }
  return fewest;
}

/**
 * Checks that closed clients have left no sessions, znodes or timers.
 *
 * @param sessions the ids of the sessions that the clients had before they were closed
 */
function checkClosed(
  world: World,
  history: History,
  running: readonly Member[],
  sessions: ReadonlySet<string | undefined>,
): void {
  for (const session of world.sessionIds) {
    if (!sessions.has(session)) continue;
    history.recordViolation(
      'a closed client ends its session',
      `session 0x${session} still exists`,
    );
  }
  for (const { path, session } of world.znodes()) {
    if (session !== undefined && sessions.has(session)) {
      history.recordViolation(
        'no znode is left',
        `${path} of the closed session 0x${session} is left`,
      );
    }
  }
  for (const { process, name } of running) {
    const { size } = process.timers;
    if (size > 0)
      history.recordViolation(
        'no timer is left',
        `${size} timers of ${name} are left after close()`,
      );
  }
}
