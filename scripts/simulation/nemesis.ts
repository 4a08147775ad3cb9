import type { PlannedFault } from './fault-plan.js';
import type { History } from './history.js';
import { ROOT } from './jobs.js';
import type { Workload } from './workload.js';
import type { Setting } from './setting.js';

type ZkClient = import('nestjs-zookeeper/recipes').ZkClient;
type World = import('nestjs-zookeeper/testing').World;
type SimulatedServer = import('nestjs-zookeeper/testing').SimulatedServer;
type SimulatedProcess = import('nestjs-zookeeper/testing').SimulatedProcess;

/** The minimum and maximum latency of a slow network, in milliseconds. */
const SLOW_LATENCY = [50, 120] as const;

/** Matches the queue nodes of mutexes and read/write locks. */
const LOCK_NODE = /(lock-|__READ__|__WRIT__)\d{10}$/;

/** The operation whose reply each fault loses. */
const LOST_REPLIES = {
  'lose create reply': 'create',
  'lose delete reply': 'delete',
  'lose listing reply': 'getChildren2',
  'lose sync reply': 'sync',
} as const;

type LostOperation = (typeof LOST_REPLIES)[keyof typeof LOST_REPLIES];

/** The virtual milliseconds after which the next reply is lost while a fault loses replies. */
const LOSS_INTERVAL = 50;

/** Injects the faults of a plan, each at its time. */
export class Nemesis {
  constructor(
    private readonly world: World,
    private readonly workload: Workload,
    private readonly history: History,
    private readonly setting: Setting,
    /** A client outside of the workload, which deletes nodes as an operator would. */
    private readonly operator: ZkClient,
  ) {}

  /** Resolves when the last fault has ended. */
  async run(faults: readonly PlannedFault[]): Promise<void> {
    await Promise.all(
      faults.map(async (fault) => {
        await this.world.sleep(fault.from - this.world.now);
        const undo = this.#inject(fault);
        await this.world.sleep(fault.until - this.world.now);
        undo();
      }),
    );
  }

  /** Starts a fault. Returns the function that ends it. */
  #inject(fault: PlannedFault): () => void {
    const { kind, target, from, until } = fault;
    if (target.startsWith('server')) return this.#injectServerFault(fault);
    const member = this.workload.current(target);
    const noop = () => {};
    // The process may have crashed or shut down, and not have been started again yet.
    if (!member || member.process.crashed) return noop;
    const { process, incarnation } = member;
    const { session } = incarnation;
    const { link } = process;
    switch (kind) {
      case 'pause':
        process.pause();
        return () => this.#resume(member.name, process);
      case 'sleep':
        process.pause({ asleep: true });
        return () => this.#resume(member.name, process);
      case 'sleep of a holder':
        incarnation.holderSleepsUntil = until;
        return () => {
          incarnation.holderSleepsUntil = 0;
          this.#resume(member.name, process);
        };
      case 'block':
        // A paused process would run it after the pause, later than the checks of the properties allow for.
        if (process.paused) return noop;
        void process.run(() => {
          process.block(until - from);
          this.workload.checkHeldLeases(member);
        });
        return noop;
      case 'crash':
      case 'crash silently':
        this.workload.crash(member, kind === 'crash silently');
        return () => this.workload.start(target);
      case 'shut down':
        this.workload.shutDown(member);
        return () => this.workload.start(target);
      case 'cut':
        return link.cut('both');
      case 'cut requests':
        return link.cut('requests');
      case 'cut replies':
        return link.cut('replies');
      case 'reset':
        link.reset();
        return noop;
      case 'refuse connections': {
        const undo = link.refuseConnections();
        link.reset();
        return undo;
      }
      case 'slow network': {
        link.latency = SLOW_LATENCY;
        return () => (link.latency = this.setting.latency);
      }
      case 'lose create reply and refuse connections': {
        if (session === undefined) return noop;
        const cancel = this.world.loseReply('create', session);
        const accept = link.refuseConnections();
        return () => {
          cancel();
          accept();
        };
      }
      case 'pause, then cut requests':
        return this.#pauseThenCutRequests(process, from, until);
      case 'lose create reply':
      case 'lose delete reply':
      case 'lose listing reply':
      case 'lose sync reply': {
        // Without a session, the fault would apply to the client of another process.
        if (session === undefined) return noop;
        const cancel = this.#loseReplies(LOST_REPLIES[kind], session);
        if (kind === 'lose sync reply') link.reset();
        return cancel;
      }
      case 'expire session':
        if (session !== undefined) this.#expire(session);
        return noop;
      case 'delete node':
        if (session !== undefined) this.#deleteNode(session);
        return noop;
      case 'step clock forward':
        process.stepClock(this.setting.sessionTimeout * 2);
        return noop;
      case 'step clock back':
        process.stepClock(-3_600_000);
        return noop;
      default:
        throw new Error(`the fault "${kind}" cannot be injected into a process`);
    }
  }

  #injectServerFault({ kind, target }: PlannedFault): () => void {
    const { servers } = this.world;
    const server = this.#server(target);
    if (!server) return () => {};
    switch (kind) {
      case 'crash server':
        server.crash();
        return () => server.restart();
      case 'crash server silently':
        server.crash({ silently: true });
        return () => server.restart();
      case 'pause server':
        server.pause();
        return () => server.resume();
      case 'isolate server':
        server.isolate();
        return () => server.rejoin();
      case 'crash all servers':
        for (const each of servers) each.crash();
        return () => {
          for (const each of servers) each.restart();
        };
      default:
        throw new Error(`the fault "${kind}" cannot be injected into a server`);
    }
  }

  /** Returns the server of a target: `server 1`, or `server of p1` for the one to which the process p1 is connected. */
  #server(target: string): SimulatedServer | undefined {
    const { servers } = this.world;
    const [, number, process = ''] = /^server (?:(\d+)|of (.+))$/.exec(target)!;
    if (number !== undefined) return servers[Number(number) - 1];
    const session = this.workload.current(process)?.incarnation.session;
    return servers.find(({ sessionIds }) => sessionIds.includes(session ?? ''));
  }

  #resume(name: string, process: SimulatedProcess): void {
    const member = this.workload.current(name);
    // In half of the cases the first code after the pause checks the leases; in the others it handles replies or
    // timers.
    if (member?.process === process && this.world.random.chance(0.5)) {
      void process.run(() => this.workload.checkHeldLeases(member)).catch(() => {});
    }
    process.resume();
  }

  /** Pauses a process, and then holds back its requests: it handles old replies, and the servers hear nothing of it. */
  #pauseThenCutRequests(process: SimulatedProcess, from: number, until: number): () => void {
    let heal = () => {};
    process.pause();
    this.world.at(from + Math.min((until - from) / 2, this.setting.sessionTimeout * 0.6), () => {
      heal = process.link.cut('requests');
      process.resume();
    });
    return () => heal();
  }

  /** Loses a reply to a session, and then another one every `LOSS_INTERVAL`, until the returned function is called. */
  #loseReplies(op: LostOperation, session: string): () => void {
    let over = false;
    let cancel = () => {};
    const lose = () => {
      cancel();
      if (over) return;
      cancel = this.world.loseReply(op, session);
      this.world.at(this.world.now + LOSS_INTERVAL, lose);
    };
    lose();
    return () => {
      over = true;
      cancel();
    };
  }

  /** Deletes a lock node of a session, as an operator does who thinks that the node is an orphan. */
  #deleteNode(session: string): void {
    const own = this.world
      .znodes(ROOT)
      .filter((znode) => znode.session === session && LOCK_NODE.test(znode.path));
    if (own.length === 0) return;
    const { random } = this.world;
    // The oldest node is probably held; most of the others wait.
    const oldest = own.reduce((a, b) => (b.created < a.created ? b : a));
    const { path } = random.chance(0.5) ? oldest : random.pick(own);
    const key = path.slice(ROOT.length + 1, path.lastIndexOf('/'));
    const deletion = { key, session, from: this.world.now, until: Infinity, confirmed: false };
    // With the option `strict`, a later node of the process waits, and its deletion ends no lease.
    const parent = path.slice(0, path.lastIndexOf('/') + 1);
    const first = own
      .filter((each) => each.path.startsWith(parent))
      .sort((a, b) => a.czxid - b.czxid)[0];
    if (first?.path === path) this.history.deletions.push(deletion);
    const answered = (confirmed: boolean) => {
      deletion.until = this.world.now;
      deletion.confirmed = confirmed;
    };
    void this.operator.delete(path).then(
      () => answered(true),
      () => answered(false),
    );
  }

  #expire(session: string): void {
    if (this.world.sessionIds.includes(session)) this.world.expireSession(session);
  }
}
