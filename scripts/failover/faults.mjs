import { setTimeout as delay } from 'node:timers/promises';
import { expireSession } from '../faults/expire-session.mjs';
import { waitedForProcessor } from '../faults/processor.mjs';

/** The maximum pause in milliseconds before a fault: random, so that faults fall anywhere between ticks and writes. */
const LONGEST_QUIET = 100;

/** A resignation needs four latencies of the six within its limit, so two may be lost to the scheduler. */
const SPARE_LATENCIES = 2;
/** The maximum number of repeats, in multiples of the number of resignations. */
const MOST_REPEATS = 3;

/** What can happen to a leader. Each fault resolves when there is a leader again. */
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
    // A machine that was busy with other processes says nothing about round trips.
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

  /** Alternates between a drop that the session survives, and silence that it does not survive. */
  async drops(fleet, leader, index) {
    const { succeeded } = fleet.fault('drops', leader);
    if (index % 2 === 0) {
      await leader.link.down();
      await delay(fleet.sessionTimeout / 8);
      await leader.link.up();
    } else {
      leader.link.holdAll();
      await succeeded();
      leader.link.resume();
      // Both sides have closed these connections by now, so what was held back is dropped.
      leader.link.cut();
    }
  },
};

export const KINDS = Object.keys(FAULTS);

/**
 * Injects all faults, evenly mixed, and repeats the disturbed ones. Adds the latencies of creates
 * between them to `creates`, in milliseconds.
 */
export async function injectFaults(fleet, counts, creates, onFault) {
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
    // Measured after an idle time, as a resignation is.
    creates.push(await leader.ask('measure'));
    await quiet();
    const event = await FAULTS[fault.kind](fleet, leader, fault.index);
    if (event?.disturbed && repeats-- > 0) plan.push(fault);
    else if (event) event.disturbed = false;
    onFault(done + 1, plan.length);
  }
  await fleet.settled();
}
