import { percentile } from '../percentile.mjs';

/** How many create latencies a resignation may take until the next one leads. */
const CREATES = 3;
/** The server expires sessions in ticks. */
const TICKS = 2;

/**
 * Looks through the history of an election for two leaders, a stale write, falling tokens, and times
 * without a leader that nothing explains or that last too long. Times are milliseconds on one clock.
 *
 * An event is one of
 *
 *   { type: 'elected' | 'ended', instance, token, at }          by the instance
 *   { type: 'write', instance, token, accepted, at }            by the store
 *   { type: 'fault', kind, instance, token, disturbed, at }     before it was done to the leader
 *   { type: 'exited', instance, at }
 */
export function judge(history, { sessionTimeout, tickTime, creates }) {
  const terms = termsOf(history);
  const medianCreate = percentile(creates, 0.5);
  const expiry = sessionTimeout + TICKS * tickTime;
  const limits = {
    kills: expiry,
    resignations: CREATES * medianCreate,
    expiries: expiry,
    drops: expiry,
  };
  const failovers = { kills: [], resignations: [], expiries: [], drops: [] };
  const disturbed = [];
  const failures = [];
  const unaware = [];
  const overlaps = staleWrites(history);

  for (const [index, term] of terms.entries()) {
    const next = terms[index + 1];
    if (!next) break;
    if (next.token <= term.token) {
      failures.push(`token ${next.token} of ${next.instance} came after ${term.token}`);
    }
    const late = term.ended - next.elected;
    if (late > 0 && couldNotKnow(term, next, sessionTimeout)) unaware.push(late);
    else if (late > 0) {
      overlaps.push(`${term.instance} still led ${ms(late)} after ${next.instance} had begun`);
    }
    if (!term.fault) {
      failures.push(
        `${next.instance} took over from ${term.instance}, to which nothing had been done`,
      );
      continue;
    }
    const { kind, at } = term.fault;
    // Who resigns knows itself when it begins to; what is done to others is counted from before it is done.
    const took = next.elected - (kind === 'resignations' ? term.ended : at);
    if (term.fault.disturbed) {
      disturbed.push(took);
      continue;
    }
    failovers[kind].push(took);
    if (took > limits[kind]) {
      failures.push(`nobody led for ${ms(took)} in ${kind}, more than ${ms(limits[kind])}`);
    }
  }
  const refusedWrites = history.filter(
    ({ type, accepted }) => type === 'write' && !accepted,
  ).length;
  return {
    failures: [...overlaps, ...failures],
    overlaps: overlaps.length,
    failovers,
    disturbed,
    survived: survived(history, terms),
    limits,
    medianCreate,
    creates,
    unaware,
    refusedWrites,
  };
}

/** The terms in the order in which they began, each with when it ended and the last that was done to it. */
function termsOf(history) {
  return history
    .filter(({ type }) => type === 'elected')
    .toSorted((a, b) => a.at - b.at)
    .map(({ instance, token, at }) => {
      const end = history.find(
        (event) =>
          event.instance === instance &&
          (event.type === 'exited' || (event.type === 'ended' && event.token === token)),
      );
      const fault = history.findLast((event) => event.type === 'fault' && event.token === token);
      return { instance, token, elected: at, ended: end?.at ?? Infinity, fault };
    });
}

/** Whose session was ended for it learns of that from the server, or at the latest by its own clock. */
function couldNotKnow({ fault, ended }, next, sessionTimeout) {
  return (
    fault?.kind === 'expiries' && fault.at < next.elected && ended - fault.at <= sessionTimeout
  );
}

/**
 * To the store, a term begins with the first write under its token, whether accepted or not: a leader
 * does nothing before. No earlier term's write may be accepted after it.
 */
function staleWrites(history) {
  let highest = -1n;
  const stale = [];
  for (const { type, instance, token, accepted } of history) {
    if (type !== 'write') continue;
    if (token > highest) highest = token;
    else if (token < highest && accepted) {
      stale.push(`a write of ${instance} under token ${token} was accepted after ${highest}`);
    }
  }
  return stale;
}

/** How many connections were dropped without an end to the leadership. */
function survived(history, terms) {
  const drops = history.filter(({ kind }) => kind === 'drops');
  const ending = terms.slice(0, -1).map(({ fault }) => fault);
  return drops.filter((drop) => !ending.includes(drop)).length;
}

function ms(value) {
  return `${value.toFixed(2)} ms`;
}
