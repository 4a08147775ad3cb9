import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

export type Mode = 'exclusive' | 'read' | 'write' | 'permit';

/** Times are milliseconds on one clock. */
interface At {
  readonly at: number;
}

/** A process of a worker: its name, and the number of the process, since a killed one is replaced. */
interface By {
  readonly worker: string;
  readonly life: number;
}

interface Granted {
  readonly id: string;
  readonly key: string;
  readonly mode: Mode;
  readonly count: number;
  readonly held: boolean;
}

export interface Woke extends At {
  readonly id: string;
  readonly held: boolean;
  /** Whether the signal had aborted before `held` was read, and after it. */
  readonly aborted: boolean;
  readonly abortedThen: boolean;
}

export interface Place {
  readonly directory: number;
  readonly sequences: readonly number[];
}

export interface Nested extends At {
  readonly from: number;
}

/** An event of a worker. */
type WorkerEvent = { readonly worker: string; readonly life?: number } & (
  | ({ readonly type: 'connected'; readonly transport: string } & At)
  | ({ readonly type: 'granted'; readonly token: string } & By & Granted & At)
  /** The sequence numbers of the lease's znodes, and the czxid of their parent. */
  | ({ readonly type: 'place'; readonly id: string } & Place)
  /** Recorded before the write is sent, and after the worker has checked that the lease is held. */
  | ({ readonly type: 'write'; readonly id: string } & At)
  /** The end of the lease for its holder: it begins to release it, or its signal aborts. */
  | ({ readonly type: 'releasing' | 'lost'; readonly id: string; readonly why?: string } & At)
  /** The state of a lease in the first code after the event loop was blocked. */
  | ({ readonly type: 'woke' } & Woke)
  /** A wait for a lock inside another lock, recorded when it ends. */
  | ({ readonly type: 'nested' } & Nested)
  | ({ readonly type: 'deadlock'; readonly message: string } & At)
  /** An error that is not one of the library's. */
  | ({ readonly type: 'broken'; readonly why: string } & At)
);

export interface Fault {
  readonly kind: string;
  /** Undefined for a fault of the servers, which concerns all workers. */
  readonly worker?: string;
  readonly from: number;
  readonly healed: number;
  readonly until: number;
}

export interface Stored {
  readonly worker: string;
  readonly id: string;
  readonly key: string;
  readonly accepted: boolean;
}

export interface Round {
  /** The time since which nothing is wrong for each worker; null if it has none. */
  readonly healed: Readonly<Record<string, number | null>>;
  /** Milliseconds that a process has waited for a processor since. */
  readonly waited: number;
}

/** The time between two rounds; disturbed if other processes kept the machine busy. */
export interface Quiet {
  readonly from: number;
  readonly until: number;
  readonly disturbed: boolean;
}

/** An event of the process that injects the faults. */
type NemesisEvent =
  | ({ readonly type: 'stored'; readonly token: string } & Stored & At)
  | ({ readonly type: 'fault' } & Fault)
  | ({ readonly type: 'exited' } & By & At)
  | ({ readonly type: 'round' } & Round)
  | ({ readonly type: 'quiet' } & Quiet)
  | ({ readonly type: 'began' } & At)
  | ({ readonly type: 'ended'; readonly orphans: readonly string[] } & At);

export type Event = WorkerEvent | NemesisEvent;
type EventOf<T extends Event['type']> = Extract<Event, { type: T }>;

/** A grant and what became of it. */
export interface Lease extends Granted, By {
  readonly token: bigint;
  readonly granted: number;
  /** Infinity while `how` is `open`. */
  ended: number;
  how: 'open' | 'exited' | 'releasing' | 'lost';
  why?: string;
  place?: Place;
  /** The times of its writes. */
  readonly writes: number[];
}

/** The events of all processes of a run, by kind. */
export interface History {
  readonly leases: Lease[];
  readonly stored: (Stored & { readonly token: bigint })[];
  readonly faults: Fault[];
  readonly rounds: Round[];
  readonly quiets: Quiet[];
  readonly woke: Woke[];
  readonly nested: Nested[];
  readonly deadlocks: EventOf<'deadlock'>[];
  readonly broken: EventOf<'broken'>[];
  readonly transports: string[];
  readonly began?: number;
  readonly ended?: number;
  /** Ephemeral znodes that were not deleted; undefined if the run ended before they were listed. */
  readonly orphans?: readonly string[];
}

/** Reads the files that the processes of a run wrote into `directory`. */
export function readHistories(directory: string): History {
  const events = readdirSync(directory)
    .filter((file) => file.endsWith('.jsonl'))
    .flatMap((file) => {
      const [worker, life] = file.replace('.jsonl', '').split('-');
      // The events of the nemesis name their worker themselves.
      const by = life === undefined ? {} : { worker, life: Number(life) };
      const lines = readFileSync(join(directory, file), 'utf8').split('\n');
      // The last line is empty, or incomplete if the process was killed.
      lines.pop();
      return lines.map((line) => Object.assign(JSON.parse(line), by) as Event);
    });
  return assemble(events);
}

/** Makes one history of the events of many processes, in any order. */
export function assemble(events: readonly Event[]): History {
  const of = <T extends Event['type']>(type: T) =>
    events.filter((event): event is EventOf<T> => event.type === type);
  const leases = new Map<string, Lease>();
  const lives = new Map<string, number>();
  for (const { worker, life, at } of of('exited')) lives.set(`${worker}.${life}`, at);
  for (const { at, token, ...grant } of of('granted')) {
    const ended = lives.get(`${grant.worker}.${grant.life}`);
    leases.set(grant.id, {
      ...grant,
      token: BigInt(token),
      granted: at,
      ended: ended ?? Infinity,
      how: ended === undefined ? 'open' : 'exited',
      writes: [],
    });
  }
  for (const event of events) {
    const lease = 'id' in event ? leases.get(event.id) : undefined;
    if (!lease) continue;
    if (event.type === 'write') lease.writes.push(event.at);
    else if (event.type === 'place') lease.place = event;
    else if (event.type === 'releasing' || event.type === 'lost') {
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
