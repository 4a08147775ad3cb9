import { timelinePage } from '../timeline.mjs';

const SERVERS = 'servers';
const OUTCOMES = {
  open: 'held to the end of the run',
  exited: 'killed with its process',
  releasing: 'released',
  lost: 'lost',
};

/** Returns an HTML page with the figures and a timeline of the run. */
export function toHtml({ leases, faults, began, ended }, summary) {
  const { checks, faults: injected, seed, server, transport, seconds } = summary;
  const lanes = [...new Set(leases.map(({ worker }) => worker))].sort();
  if (faults.some(({ worker }) => worker === undefined)) lanes.push(SERVERS);
  const laneOf = ({ worker = SERVERS }) => lanes.indexOf(worker);
  const at = (time) => Math.round(Math.min(time, ended) - began);
  return timelinePage({
    title: `Chaos, seed ${seed}`,
    facts: [
      ['run', `${seconds} s over ${transport} on ${server}`],
      ...Object.entries(injected).map(([kind, count]) => [`fault: ${kind}`, count]),
      ...checks.map(({ name, made, violations }) => [
        name,
        `${made} checked, ${violations} violations`,
      ]),
    ],
    length: at(ended),
    lanes,
    leases: leases.map((lease) => ({
      lane: laneOf(lease),
      key: lease.key,
      mode: lease.mode,
      granted: at(lease.granted),
      ended: at(lease.ended),
      outcome: OUTCOMES[lease.how],
      token: lease.token.toString(),
    })),
    faults: faults.map((fault, index) => ({
      lane: laneOf(fault),
      index,
      kind: fault.kind,
      from: at(fault.from),
      until: at(fault.until),
    })),
    handOvers: [],
    violations: [],
  });
}
