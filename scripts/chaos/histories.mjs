import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Reads what the processes of a run wrote into `directory`. */
export function readHistories(directory) {
  const events = readdirSync(directory)
    .filter((file) => file.endsWith('.jsonl'))
    .flatMap((file) => {
      const [worker, life] = file.replace('.jsonl', '').split('-');
      // The nemesis says itself whom an event is about: nobody where it is about all.
      const by = life === undefined ? {} : { worker, life: Number(life) };
      const lines = readFileSync(join(directory, file), 'utf8').split('\n');
      // Empty, or what a process that was killed could not finish.
      lines.pop();
      return lines.map((line) => Object.assign(JSON.parse(line), by));
    });
  return assemble(events);
}

/**
 * Makes one history of events of many processes, in any order. An event of a worker is one of
 *
 *   { type: 'connected', transport, at }
 *   { type: 'granted', id, key, mode: 'exclusive' | 'read' | 'write' | 'permit', count, token, held, at }
 *   { type: 'place', id, directory, sequences }    its znodes' numbers in that directory
 *   { type: 'write', id, at }                      before it was sent, and after it was asked whether the lease is held
 *   { type: 'releasing' | 'told', id, why, at }    the lease's end, for its holder
 *   { type: 'woke', id, held, aborted, abortedThen, at }    in the first code after its event loop was blocked
 *   { type: 'nested', from, at }                   a wait for a lock inside of another one, when it ended
 *   { type: 'deadlock', message, at }              that it was told of one
 *   { type: 'broken', why, at }                    an error of no type of ours
 *
 * with the `worker` and its `life`; and of the process that brings the faults about
 *
 *   { type: 'stored', worker, id, key, token, accepted, at }
 *   { type: 'fault', kind, worker, from, healed, until }    without a worker: all have their part
 *   { type: 'exited', worker, life, at }
 *   { type: 'round', healed: { [worker]: at }, waited }    since when nothing is wrong for each worker, and
 *                                                          how long a process waited for a processor since
 *   { type: 'quiet', from, until, disturbed }      between two rounds; with a machine that was busy with others
 *   { type: 'began', at }, { type: 'ended', orphans, at }
 *
 * Times are milliseconds on one clock. Returns the same by kind, with a lease for each grant.
 */
export function assemble(events) {
  const of = (type) => events.filter((event) => event.type === type);
  const leases = new Map();
  const lives = new Map();
  for (const { worker, life, at } of of('exited')) lives.set(`${worker}.${life}`, at);
  for (const { id, at, token, ...grant } of of('granted')) {
    const ended = lives.get(`${grant.worker}.${grant.life}`);
    leases.set(id, {
      ...grant,
      id,
      token: BigInt(token),
      granted: at,
      ended: ended ?? Infinity,
      how: ended === undefined ? 'open' : 'exited',
      writes: [],
    });
  }
  for (const event of events) {
    const lease = leases.get(event.id);
    if (!lease) continue;
    if (event.type === 'write') lease.writes.push(event.at);
    else if (event.type === 'place') lease.place = event;
    else if (event.type === 'releasing' || event.type === 'told') {
      Object.assign(lease, { ended: event.at, how: event.type, why: event.why });
    }
  }
  const [ended] = of('ended');
  return {
    leases: [...leases.values()],
    stored: of('stored').map((write) => ({ ...write, token: BigInt(write.token) })),
    faults: of('fault'),
    rounds: of('round'),
    quiets: of('quiet'),
    woke: of('woke'),
    nested: of('nested'),
    deadlocks: of('deadlock'),
    broken: of('broken'),
    transports: [...new Set(of('connected').map(({ transport }) => transport))],
    began: of('began')[0]?.at,
    ended: ended?.at,
    orphans: ended?.orphans,
  };
}
