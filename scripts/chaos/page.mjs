import { reportPage } from '../report-page.mjs';

const SERVERS = 'servers';
const OUTCOMES = {
  open: 'held to the end of the run',
  exited: 'killed with its process',
  releasing: 'released',
  lost: 'lost',
};

/**
 * Returns an HTML page with the figures and a timeline of the run.
 *
 * @param {import('./histories.js').History} history
 */
export function toHtml({ leases, faults, began = 0, ended = Infinity }, summary) {
  const { checks, faults: injected, seed, server, transport, seconds } = summary;
  const lanes = [...new Set(leases.map(({ worker }) => worker))].sort();
  if (faults.some(({ worker }) => worker === undefined)) lanes.push(SERVERS);
  const laneOf = ({ worker = SERVERS }) => lanes.indexOf(worker);
  const at = (time) => Math.round(Math.min(time, ended) - began);
  const facts = [
    ['run', `${seconds} s over ${transport} on ${server}`],
    ...Object.entries(injected).map(([kind, count]) => [`fault: ${kind}`, count]),
    ...checks.map(({ name, made, violations }) => [
      name,
      `${made} checked, ${violations} violations`,
    ]),
  ];
  return reportPage(`Chaos, seed ${seed}`, facts, {
    from: 0,
    until: at(ended),
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
    bands: faults.map((fault, index) => ({
      lane: laneOf(fault),
      kind: 'fault',
      label: `${index}: ${fault.kind}`,
      from: at(fault.from),
      until: at(fault.until),
    })),
    handOvers: [],
    writes: [],
    violations: [],
  });
}
