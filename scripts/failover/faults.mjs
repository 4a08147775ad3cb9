import { setTimeout as delay } from 'node:timers/promises';
import { expireSession } from '../faults/expire-session.mjs';
import { waitedForProcessor } from '../faults/processor.mjs';

/** Milliseconds of quiet before each fault, at most: it shall meet the server's ticks and the leader's writes anywhere. */
const LONGEST_QUIET = 100;

/** Who resigns leaves room for this many more latencies within the limit: four of six are needed. */
const SPARE_LATENCIES = 2;
/** How many times more than asked for a resignation may be repeated. */
const MOST_REPEATS = 3;

/** What can happen to a leader; each ends when somebody leads again. */
const FAULTS = {
  async kills(fleet, leader) {
    const { succeeded } = fleet.fault('kills', leader);
    await leader.kill();
    await fleet.add();
    await succeeded();
  },

  async resignations(fleet, leader) {
    const { pids } = fleet;
    const before = waitedForProcessor(pids);
    const { event, succeeded } = fleet.fault('resignations', leader);
    await leader.ask('resign');
    await succeeded();
    // Whatever it took: a machine that was busy with others says nothing about round trips.
    const spare = Math.max(1, SPARE_LATENCIES * fleet.latency);
    event.disturbed = waitedForProcessor(pids) - before > spare;
    return event;
  },

  async expiries(fleet, leader) {
    const credentials = await leader.ask('credentials');
    const { succeeded } = fleet.fault('expiries', leader);
    await expireSession(fleet.server.port, credentials);
    await succeeded();
  },

  /** In turns one that the session survives, and one that it does not and that nobody is told of. */
  async drops(fleet, leader, index) {
    const { succeeded } = fleet.fault('drops', leader);
    if (index % 2 === 0) {
      await leader.link.down();
      await delay(fleet.sessionTimeout / 8);
      await leader.link.up();
    } else {
      leader.link.silence();
      await succeeded();
      leader.link.speak();
      // What was held back belongs to connections that both sides have given up by now.
      leader.link.cut();
    }
  },
};

export const KINDS = Object.keys(FAULTS);

/**
 * Brings all faults about, evenly mixed, the disturbed ones once more. Adds to `creates` what creates
 * take meanwhile, in milliseconds.
 */
export async function afflict(fleet, counts, creates, onFault) {
  const plan = KINDS.flatMap((kind) =>
    Array.from({ length: counts[kind] }, (_, index) => {
      return { kind, index, turn: (index + 0.5) / counts[kind] };
    }),
  ).sort((a, b) => a.turn - b.turn);
  let repeats = MOST_REPEATS * counts.resignations;
  const quiet = () => delay(Math.random() * LONGEST_QUIET, undefined, { signal: fleet.signal });
  for (const [done, fault] of plan.entries()) {
    const leader = await fleet.settled();
    await quiet();
    // As a resignation does, it comes after a while in which nobody had anything to do.
    creates.push(await leader.ask('measure'));
    await quiet();
    const event = await FAULTS[fault.kind](fleet, leader, fault.index);
    if (event?.disturbed && repeats-- > 0) plan.push(fault);
    // It counts then.
    else if (event) event.disturbed = false;
    onFault(done + 1, plan.length);
  }
  await fleet.settled();
}
