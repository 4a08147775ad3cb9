import { check } from '../chaos/checker.mjs';
import { deletionNotice, type Disturbances } from './disturbances.js';
import type { History, LeaseRecord, Request } from './history.js';
import { ROOT } from './jobs.js';
import type { Member, Members } from './members.js';
import { noticeTime, PERMITS, type Setting, TICK_TIME } from './setting.js';

type World = import('nestjs-zookeeper/testing').World;
type SimulatedProcess = import('nestjs-zookeeper/testing').SimulatedProcess;

/** Milliseconds for which a try may wait for a lock that only lingers. */
const TRY_LIMIT = 600;
/** Milliseconds each way; beyond this a try cannot wait until several others have been served. */
const SLOW_NETWORK = 5;
/** Timers of a connected client: its keep-alive and its session deadline. */
const TIMERS_OF_CLIENT = 2;

/** Looks for everything that must hold of what was asked for and granted. */
export function checkHistory(history: History, setting: Setting, disturbances: Disturbances): void {
  checkSafety(history, setting, disturbances);
  const calm = (from: number, until: number) => disturbances.calm(from, until);
  for (const request of history.requests) {
    checkRequest(request, history, setting, disturbances, calm);
  }
  for (const record of history.leases) checkLease(record, history, disturbances);
  for (const [key, contenders] of byKey(history)) {
    if (key === 'latch' || key === 'selector' || key === 'close-orders') continue;
    checkTries(key, contenders, history, setting, calm);
    checkFreeLocks(key, contenders, history, setting, calm);
  }
  checkSuccession(history, disturbances);
  checkDeletions(history, setting, disturbances);
}

/** Exclusion, permits, late work and tokens, by the checker of the chaos command. */
function checkSafety(history: History, setting: Setting, disturbances: Disturbances): void {
  const leases = history.leases.map((record, index) => ({
    id: `${record.life.name}.${index}`,
    worker: record.life.name,
    life: 1,
    key: record.key,
    mode: record.mode === 'lead' ? 'exclusive' : record.mode,
    count: record.count,
    token: record.token,
    held: record.ended > record.granted,
    granted: record.granted,
    ended: record.ended,
    how: record.outcome === 'lost' ? 'told' : 'releasing',
    writes: record.work,
  }));
  const checks = check(
    {
      leases,
      stored: [],
      faults: disturbances.excuses(),
      rounds: [],
      quiets: [],
      woke: [],
      nested: [],
      deadlocks: [],
      broken: [],
      transports: [],
      orphans: [],
    },
    { sessionTimeout: setting.sessionTimeout, tickTime: TICK_TIME, workers: 0 },
  );
  // The others judge by what the simulator knows better.
  const wanted = [
    'no two leases overlap',
    'permits are never exceeded',
    'no work begins on a lease that another one followed',
    'tokens rise',
  ];
  for (const { name, violations } of checks as { name: string; violations: string[] }[]) {
    if (!wanted.includes(name)) continue;
    for (const message of violations) history.violation(name, message);
  }
}

/** How a request ended, and when. */
function checkRequest(
  request: Request,
  history: History,
  setting: Setting,
  disturbances: Disturbances,
  calm: (from: number, until: number) => boolean,
): void {
  const { asked, settled, error, life, key, options, cancelled } = request;
  if (life.ended < Infinity && settled === Infinity) return;
  const end = Math.min(settled, history.world.now);
  checkError(request, history);
  const disturbed = calm(asked, end) ? 0 : setting.sessionTimeout / 2;
  const late = end - cancelled - 20 * setting.latency[1] - 2 * setting.lag[1] - 50 - disturbed;
  if (late > 0 && !disturbances.paused(life.name, cancelled, end) && !request.partial) {
    const how = `${life.name} waited for ${key} ${(end - cancelled).toFixed(1)} ms after its signal`;
    history.violation('a signal ends a wait', how, end);
  }
  if (!calm(asked, end) || life.ended < end) return;
  const { recipes } = history.library;
  const expected =
    error === undefined ||
    error instanceof recipes.LockBusyError ||
    error instanceof recipes.LockTimeoutError ||
    error instanceof recipes.WaitCancelledError ||
    error instanceof recipes.SelfDeadlockError ||
    error instanceof recipes.LeaseLostError;
  if (!expected) {
    const why = `${life.name} asked for ${key}: ${String(error)}`;
    history.violation('nothing fails while nothing is wrong', why, end);
  }
  const { wait = Infinity } = options;
  const slack = 20 * setting.latency[1] + 2 * setting.lag[1] + 50;
  const longest = wait === 0 ? TRY_LIMIT : wait / life.clockRate;
  const took = end - asked;
  if (took > longest + slack) {
    const how = `${life.name} waited ${took.toFixed(1)} ms for ${key} with a wait of ${wait} ms`;
    history.violation('a wait ends in time', how, end);
  }
  if (error instanceof recipes.LockTimeoutError && took < wait / life.clockRate - 2) {
    const how = `${life.name} timed out on ${key} after ${took.toFixed(1)} of ${wait} ms`;
    history.violation('a wait lasts as long as asked for', how, end);
  }
}

/** A new session continues the waits of an old one, so no wait ends with a session. */
function checkError({ error, mode, key, life }: Request, history: History): void {
  const { recipes } = history.library;
  if (!(error instanceof recipes.SessionExpiredError) || mode === 'lead') return;
  const why = `${life.name} asked for ${key}: ${error.message}`;
  history.violation('a wait continues in the next session', why);
}

/** How a lease ended, and when. */
function checkLease(record: LeaseRecord, history: History, disturbances: Disturbances): void {
  const { life, key, mode, granted, ended, outcome, request } = record;
  const { holdAtMost = Infinity } = request.options;
  const limit = granted + holdAtMost / life.clockRate;
  const byTime = ended >= limit - 2;
  if (outcome === 'lost' && mode !== 'lead' && !byTime && ended > granted) {
    if (!disturbances.explainsLoss(life.name, ended)) {
      const why = `${life.name} lost ${key}: ${reasonOf(record)}`;
      history.violation('no lease is lost without a reason', why, ended);
    }
  }
  if (outcome === 'lost' && mode !== 'lead' && life.closing <= ended && life.waitsForHolders) {
    if (!disturbances.others(life.name, granted - 1, ended, 'shut down')) {
      const why = `${life.name} lost ${key} by its shutdown`;
      history.violation('a shutdown waits for holders', why, ended);
    }
  }
  if (Math.min(ended, history.world.now) > limit + 10 && life.ended > limit + 10) {
    if (!disturbances.paused(life.name, granted, ended) && !request.partial) {
      const why = `${life.name} held ${key} for ${(ended - granted).toFixed(1)} ms with a limit of ${holdAtMost} ms`;
      history.violation('holdAtMost ends a lease', why, ended);
    }
  }
}

function reasonOf({ lease }: LeaseRecord): string {
  const reason: unknown = lease.signal.reason;
  return reason instanceof Error ? reason.message : 'without a reason';
}

/** Everybody who wanted a key: requests, and what they led to. */
interface Contender {
  readonly request: Request;
  readonly record: LeaseRecord | undefined;
  /** When it no longer stands in anybody's way. */
  readonly gone: number;
}

function byKey(history: History): Map<string, Contender[]> {
  const records = new Map(history.leases.map((record) => [record.request, record]));
  const keys = new Map<string, Contender[]>();
  for (const request of history.requests) {
    const record = records.get(request);
    const contender = { request, record, gone: goneAt(request, record) };
    const known = keys.get(request.key);
    if (known) known.push(contender);
    else keys.set(request.key, [contender]);
  }
  return keys;
}

function goneAt(request: Request, record: LeaseRecord | undefined): number {
  if (!record) return request.settled;
  const { holdAtLeast = 0 } = request.options;
  const kept = record.granted + holdAtLeast / record.life.clockRate;
  // A lost lease is given up at once; a release counts from its answer.
  const freed = record.outcome === 'released' ? record.freed : record.ended;
  return Math.max(freed, kept);
}

function conflicts(a: Request, b: Request): boolean {
  return a.mode !== 'read' || b.mode !== 'read';
}

/** A try may be refused only where somebody else holds or wants the lock. */
function checkTries(
  key: string,
  contenders: readonly Contender[],
  history: History,
  setting: Setting,
  calm: (from: number, until: number) => boolean,
): void {
  const { LockBusyError } = history.library.recipes;
  const notice = 2 * noticeTime(setting);
  const slow = setting.latency[1] > SLOW_NETWORK;
  for (const { request, record } of contenders) {
    const { asked, settled, error, options, life } = request;
    if (record || request.partial || options.wait !== 0 || !(error instanceof LockBusyError))
      continue;
    if (!calm(asked, settled)) continue;
    // A revocation replaces the data of a lingering node, so nobody can see that it only lingers.
    const revoked = history.revocations.some(
      (each) => each.key === key && each.from <= settled && each.until + notice >= asked,
    );
    if (revoked) continue;
    const others = contenders.filter(
      (other) =>
        other.request !== request &&
        conflicts(request, other.request) &&
        other.request.asked <= settled &&
        other.gone + notice >= asked,
    );
    const taken = others.reduce((sum, other) => sum + other.request.count, request.count);
    // Over a slow network a try may not pass the door in time behind others who ask.
    const free = request.mode === 'permit' && !slow ? taken <= PERMITS : others.length === 0;
    if (!free) continue;
    const why = `${life.name} tried ${key} (${request.mode}), which nobody held or wanted, and was refused`;
    history.violation('a try for a free lock succeeds', why, settled);
  }
}

/** A request is granted soon after the last one who stood in its way has gone. */
function checkFreeLocks(
  key: string,
  contenders: readonly Contender[],
  history: History,
  setting: Setting,
  calm: (from: number, until: number) => boolean,
): void {
  const limit = 20 * setting.latency[1] + 2 * setting.lag[1] + 100;
  const all = new InTheWay(contenders);
  const writers = new InTheWay(contenders.filter(({ request }) => request.mode !== 'read'));
  for (const { request, record } of contenders) {
    if (!record || request.partial) continue;
    const { granted, life } = record;
    if (granted - request.asked <= limit || !calm(request.asked, granted)) continue;
    const before = (request.mode === 'read' ? writers : all).goneBefore(granted);
    const late = granted - Math.max(request.asked, Math.min(before, granted));
    if (late <= limit) continue;
    const why = `${life.name} was granted ${key} (${request.mode}) ${late.toFixed(1)} ms after it became free`;
    history.violation('a free lock is granted soon', why, granted);
  }
}

/** Those who stand in the way of a later grant: holders since their grants, others since they asked. */
class InTheWay {
  readonly #starts: number[] = [];
  /** When the last one of those up to here had gone. */
  readonly #gone: number[] = [];

  constructor(contenders: readonly Contender[]) {
    let last = 0;
    const sorted = contenders
      .map(({ request, record, gone }) => {
        // What is taken together with others may be taken long before all are.
        const start = record && !request.partial ? record.granted : request.asked;
        return { start, gone };
      })
      .sort((a, b) => a.start - b.start);
    for (const { start, gone } of sorted) {
      this.#starts.push(start);
      this.#gone.push((last = Math.max(last, gone)));
    }
  }

  /** When the last one of those who started before a time had gone. */
  goneBefore(time: number): number {
    let [low, high] = [0, this.#starts.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#starts[middle]! < time) low = middle + 1;
      else high = middle;
    }
    return low === 0 ? 0 : this.#gone[low - 1]!;
  }
}

/** A selector's next leader begins only when the last one has stopped; holdAtLeast keeps a lock taken. */
function checkSuccession(history: History, disturbances: Disturbances): void {
  const last = new Map<string, LeaseRecord>();
  const sorted = history.leases
    .filter((record) => record.ended > record.granted)
    .sort((a, b) => a.granted - b.granted);
  for (const record of sorted) {
    const before = last.get(record.key);
    last.set(record.key, record);
    if (!before || before.life === record.life) continue;
    const settledWell =
      before.life.ended > record.granted &&
      !disturbances.disturb(before.life.name, before.granted, record.granted);
    if (!settledWell) continue;
    if (before.stopped !== undefined && before.stopped > record.granted) {
      const why = `${record.life.name} led ${record.key} before ${before.life.name} had stopped`;
      history.violation('a leader begins when the last one has stopped', why, record.granted);
    }
    const { holdAtLeast = 0 } = before.request.options;
    const kept = before.granted + holdAtLeast / before.life.clockRate;
    const excluded = record.mode !== 'permit' && (record.mode !== 'read' || before.mode !== 'read');
    if (excluded && before.outcome === 'released' && record.granted < kept - 2) {
      const why = `${record.life.name} was granted ${record.key} ${(kept - record.granted).toFixed(1)} ms before the holdAtLeast of ${before.life.name} was over`;
      history.violation('holdAtLeast keeps a lock taken', why, record.granted);
    }
  }
}

/** Who holds a lock for long learns that its node was deleted. */
function checkDeletions(history: History, setting: Setting, disturbances: Disturbances): void {
  for (const { at, key, session } of history.deletions) {
    const noticed = at + deletionNotice(setting);
    for (const record of history.leases) {
      const { life, granted, ended, mode } = record;
      if (record.key !== key || record.session !== session || mode === 'read') continue;
      if (granted > at || ended < noticed || life.ended < noticed) continue;
      if (disturbances.others(life.name, at, noticed)) continue;
      const why = `${life.name} held ${key} for ${(ended - at).toFixed(1)} ms after its node was deleted`;
      history.violation('a lease ends when its node is deleted', why, ended);
    }
  }
}

/** What must be so when nothing is asked for any more and all faults are over. */
export async function checkEnd(
  world: World,
  history: History,
  members: Members,
  setting: Setting,
): Promise<void> {
  const { running } = members;
  for (const { key, mode, life, asked, settled } of history.requests) {
    if (settled < Infinity || life.ended < Infinity) continue;
    const why = `${life.name} has waited for ${key} (${mode}) since ${asked.toFixed(1)} ms`;
    history.violation('nobody waits forever', why);
  }
  const nest = setting.processes.some((process) => process.nest);
  if (!nest) await checkLeaders(history, running);
  checkCandidates(history, running, nest);
  await Promise.all(running.map((member) => inProcess(member, () => member.program?.leave())));
  await world.sleep(4 * noticeTime(setting) + 20);
  if (!nest) await checkIdle(world, history, running);
  const sessions = new Set(running.map(({ life }) => life.session));
  await Promise.all(running.map((member) => inProcess(member, () => member.program?.close())));
  await world.sleep(4 * noticeTime(setting) + 20);
  checkClosed(world, history, running, sessions);
}

async function inProcess({ process }: Member, act: () => Promise<void> | undefined): Promise<void> {
  await process.run(async () => act());
}

/** Exactly one participant of the latch leads. */
async function checkLeaders(history: History, running: readonly Member[]): Promise<void> {
  // Whether a lease is held depends on the clock of its process.
  const leading = await Promise.all(
    running.map(({ life, process }) =>
      process.run(
        () => history.openOf(life).filter(({ key, lease }) => key === 'latch' && lease.held).length,
      ),
    ),
  );
  const count = leading.reduce((sum, each) => sum + each, 0);
  if (count === 1) return;
  history.violation('an election has one leader', `the latch has ${count} leaders`);
}

/** Every process that runs stands for election. */
function checkCandidates(history: History, running: readonly Member[], nest: boolean): void {
  const path = nest ? '/app/elections/close-orders' : `${ROOT}/latch`;
  const present = new Set(history.world.children(path).map(({ session }) => session));
  for (const { name, life } of running) {
    if (life.session !== undefined && present.has(life.session)) continue;
    history.violation('every participant stands for election', `${name} is missing at ${path}`);
  }
}

/** Clients that are connected and do nothing leave nothing but their connections. */
async function checkIdle(
  world: World,
  history: History,
  running: readonly Member[],
): Promise<void> {
  const sessions = new Set(running.map(({ life }) => life.session));
  for (const { path, session } of world.znodes()) {
    if (session !== undefined && sessions.has(session)) {
      history.violation('no znode is left', `${path} is left of session 0x${session}`);
    }
  }
  if (world.watchCount > 0) {
    history.violation('no watch is left', `${world.watchCount} watches are left on the servers`);
  }
  for (const { process, name } of running) {
    const count = await fewestTimers(world, process);
    if (count <= TIMERS_OF_CLIENT) continue;
    const why = `${count} timers of ${name} are left, not ${TIMERS_OF_CLIENT}`;
    history.violation('no timer is left', why);
  }
}

/** Of several looks: at one of them a client may be about to send its keep-alive. */
async function fewestTimers(world: World, process: SimulatedProcess): Promise<number> {
  let fewest = Infinity;
  for (let look = 0; look < 4; look++) {
    fewest = Math.min(fewest, process.timers.size);
    await world.sleep(7);
  }
  return fewest;
}

/** @param sessions of the clients, before they were closed */
function checkClosed(
  world: World,
  history: History,
  running: readonly Member[],
  sessions: ReadonlySet<string | undefined>,
): void {
  for (const session of world.sessionIds) {
    if (!sessions.has(session)) continue;
    history.violation('a closed client ends its session', `0x${session} is still there`);
  }
  for (const { path, session } of world.znodes()) {
    if (session !== undefined && sessions.has(session)) {
      history.violation('no znode is left', `${path} is left of the closed session 0x${session}`);
    }
  }
  for (const { process, name } of running) {
    const { size } = process.timers;
    if (size > 0)
      history.violation('no timer is left', `${size} timers of ${name} after its close`);
  }
}
