import { OpCode } from '../../protocol/index.js';
import type { SimulatedProcess } from './process.js';
import type { World } from './world.js';

/*
 * Each fault has a rule that says before which events it is worth injecting. A fault commutes with every other event:
 * it changes something that this event neither reads nor writes, so that the fault before the event and the fault after
 * it lead to the same state. The end of the fault is then a little later, which is a fault of a little other length.
 *
 * - A pause changes what a process does, so it matters before the events of this process.
 * - A cut holds back messages at the moment of their arrival, so it matters before the arrivals in its direction.
 * - A reset and a crash lose messages in transit, so they matter before the arrivals over the link of the process, and
 *   before those of its events that send messages.
 * - The end of a session, the write of an operator, and the crash of a server change what servers answer, so they matter
 *   before the events of servers that send messages.
 */

/**
 * A moment of a run, at which a fault can be injected: directly before an event.
 *
 * @publicApi
 */
export interface Moment {
  /** The number of moments before it in the same run. */
  readonly index: number;
  /** Virtual milliseconds since the simulation started. */
  readonly at: number;
  /**
   * The event: a message arrives, a timer fires, or the code of a process continues, such as after `setImmediate()`.
   */
  readonly kind: 'message' | 'timer' | 'step';
  /** The name of the process that handles the event, or the address of the server. */
  readonly process: string;
  /** Whether a server or the network handles the event. */
  readonly server: boolean;
  /** Whether the event sends no message, other than a keep-alive or a `sync`, and adds no note to the trace. */
  readonly silent: boolean;
  /** The message that arrives. */
  readonly message:
    | {
        /** The name of the process that sent it, or to which it goes. */
        readonly process: string;
        /** Whether it goes to a server or to the process. */
        readonly direction: 'requests' | 'replies';
        /** The name of the operation that it asks for; undefined for a reply. */
        readonly operation: string | undefined;
      }
    | undefined;
}

/**
 * A fault that `explore()` injects at each moment.
 *
 * @publicApi
 */
export interface ExploredFault {
  /** A unique name, such as `reset a`. A plan refers to it. */
  readonly name: string;
  /** The name of the process, or the address of the server. */
  readonly target: string;
  /** Virtual milliseconds until the end of the fault; 0 for a fault that has no end. */
  readonly duration: number;
  /**
   * Returns whether the fault before this event can lead to another state than the fault after it. Other moments are
   * skipped. Default: always.
   */
  readonly applies?: ((moment: Moment) => boolean) | undefined;
  /** Returns whether the fault has an effect in the current state; moments at which it has none are skipped. Default: always. */
  readonly hasEffect?: ((world: World) => boolean) | undefined;
  /** Starts the fault. May return the function that ends it. */
  start(world: World): (() => void) | void;
}

/**
 * What {@link standardFaults} needs to know of a scenario.
 *
 * @publicApi
 */
export interface FaultTargets {
  /** The names of the processes. */
  readonly processes: readonly string[];
  /** The addresses of the servers. Default: none, so that no server fails. */
  readonly servers?: readonly string[] | undefined;
  /** The session timeout of the clients in milliseconds. Short faults end no session, long ones end every session. */
  readonly sessionTimeout: number;
}

/** The length of a short fault, as a fraction of the session timeout. */
const SHORT = 0.25;
/** Beyond the session timeout and the tick in which the servers notice it. */
const LONG = 1.8;

/** The operations of the library. */
const OPERATIONS = [
  'create',
  'create2',
  'createContainer',
  'createTTL',
  'delete',
  'multi',
  'setData',
  'getData',
  'exists',
  'getChildren2',
  'sync',
  'check',
  'setWatches',
  'setWatches2',
  'removeWatches',
  'closeSession',
] as const satisfies readonly (keyof typeof OpCode)[];

/** Matches the znodes of waiting callers and holders, of participants and of items. */
const QUEUE_NODE = /\d{10}$/;

/** What a revocation writes into the znode of a lock. */
const REVOKED = Buffer.from('__REVOKE__');

/**
 * Returns the faults that `explore()` injects by default: pauses, cut, late and lost messages, resets, crashes, the
 * end of a session, a deleted znode and a revocation for each process, and a crash, a pause, an isolation and a lag for
 * each server.
 *
 * @publicApi
 */
export function standardFaults({
  processes,
  servers = [],
  sessionTimeout,
}: FaultTargets): ExploredFault[] {
  const short = sessionTimeout * SHORT;
  const long = sessionTimeout * LONG;
  return [
    ...processes.flatMap((name) => processFaults(name, short, long)),
    ...servers.flatMap((address) => serverFaults(address, servers.length > 1, short, long)),
  ];
}

function processFaults(name: string, short: number, long: number): ExploredFault[] {
  const find = (world: World) => world.processes.find((process) => process.name === name);
  const fault = (
    kind: string,
    duration: number,
    applies: (moment: Moment) => boolean,
    start: (process: SimulatedProcess, world: World) => (() => void) | void,
    hasEffect: (process: SimulatedProcess, world: World) => boolean = () => true,
  ): ExploredFault => ({
    name: `${kind}: ${name}`,
    target: name,
    duration,
    applies,
    hasEffect: (world) => {
      const process = find(world);
      return process !== undefined && hasEffect(process, world);
    },
    start: (world) => start(find(world)!, world),
  });
  const isOwn = ({ process }: Moment) => process === name;
  const isArrival = (direction: 'requests' | 'replies') => (moment: Moment) =>
    moment.message?.process === name && moment.message.direction === direction;
  const isOverLink = ({ message }: Moment) => message?.process === name;
  const isOverLinkOrSends = (moment: Moment) =>
    isOverLink(moment) || (isOwn(moment) && !moment.silent);
  const pause = (kind: string, length: number, first: 'timer' | 'message') =>
    fault(kind, length, isOwn, (process) => {
      process.pause();
      return () => process.resume(first);
    });
  const cuts = [
    { direction: 'both', applies: isOverLink },
    { direction: 'requests', applies: isArrival('requests') },
    { direction: 'replies', applies: isArrival('replies') },
  ] as const;
  return [
    pause('short pause', short, 'message'),
    // What the process handles first after the pause may decide what it does about a lost session.
    pause('long pause', long, 'message'),
    pause('long pause, timers first', long, 'timer'),
    ...cuts.flatMap(({ direction, applies }) => {
      const what = direction === 'both' ? 'cut' : `cut ${direction}`;
      const cut = (process: SimulatedProcess) => process.link.cut(direction);
      return [
        fault(`short ${what}`, short, applies, cut),
        fault(`long ${what}`, long, applies, cut),
      ];
    }),
    ...(['requests', 'replies'] as const).map((direction) =>
      fault(`late ${direction}`, short, isArrival(direction), ({ link }) =>
        link.letOthersOvertake(direction),
      ),
    ),
    ...OPERATIONS.map((operation) => {
      const applies = ({ message }: Moment) =>
        message?.process === name && message.operation === operation;
      return fault(`lost reply to ${operation}`, 0, applies, (process, world) => {
        const session = world.sessionsOf(process).at(-1);
        if (session !== undefined) world.loseReply(operation, session);
      });
    }),
    fault('reset', 0, isOverLinkOrSends, ({ link }) => link.reset()),
    fault('crash', 0, isOverLinkOrSends, (process) => process.crash()),
    fault('silent crash', 0, isOverLinkOrSends, (process) => process.crash({ silently: true })),
    fault('expiry', 0, isAtServer, (process, world) => {
      for (const session of world.sessionsOf(process)) world.expireSession(session);
    }),
    ...([0, -1] as const).map((index) =>
      fault(
        `deletion of the ${index === 0 ? 'first' : 'last'} znode`,
        0,
        isAtServer,
        (process, world) => world.deleteZnode(queueNodes(process, world).at(index)!),
        // The only znode is the first one.
        (process, world) => queueNodes(process, world).length > (index === 0 ? 0 : 1),
      ),
    ),
    fault(
      'revocation',
      0,
      isAtServer,
      (process, world) => world.setZnodeData(queueNodes(process, world)[0]!, REVOKED),
      (process, world) => queueNodes(process, world).length > 0,
    ),
  ];
}

function serverFaults(
  address: string,
  hasOthers: boolean,
  short: number,
  long: number,
): ExploredFault[] {
  type Server = World['servers'][number];
  const fault = (
    kind: string,
    duration: number,
    start: (server: Server) => () => void,
  ): ExploredFault => ({
    name: `${kind}: ${address}`,
    target: address,
    duration,
    applies: (moment) => isAtServer(moment) && moment.process === address,
    start: ({ servers }) => start(servers.find((server) => server.address === address)!),
  });
  const crash = (silently: boolean) => (server: Server) => {
    server.crash({ silently });
    return () => server.restart();
  };
  const pause = (server: Server) => {
    server.pause();
    return () => server.resume();
  };
  const isolate = (server: Server) => {
    server.isolate();
    return () => server.rejoin();
  };
  return [
    fault('crash', short, crash(false)),
    fault('silent crash', short, crash(true)),
    fault('short pause', short, pause),
    fault('long pause', long, pause),
    ...(hasOthers
      ? [
          fault('long crash', long, crash(false)),
          fault('short isolation', short, isolate),
          fault('long isolation', long, isolate),
          fault('lag', short, (server) => server.fallBehind()),
        ]
      : []),
  ];
}

function isAtServer({ message, server, silent }: Moment): boolean {
  return server && !silent && message?.direction !== 'replies';
}

/** Returns the paths of the znodes of a process in queues, the oldest one first. */
function queueNodes(process: SimulatedProcess, world: World): string[] {
  const sessions = new Set(world.sessionsOf(process));
  return world
    .znodes()
    .filter(({ path, session }) => sessions.has(session!) && QUEUE_NODE.test(path))
    .sort((a, b) => a.czxid - b.czxid)
    .map(({ path }) => path);
}
