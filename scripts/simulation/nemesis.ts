import type { FaultKind } from './fault-plan.js';
import type { History } from './history.js';
import { ROOT } from './jobs.js';
import type { Members } from './members.js';
import { type Setting } from './setting.js';
import type { Fault } from './types.js';

type ZkClient = import('nestjs-zookeeper/recipes').ZkClient;
type World = import('nestjs-zookeeper/testing').World;
type Link = import('nestjs-zookeeper/testing').Link;
type SimulatedProcess = import('nestjs-zookeeper/testing').SimulatedProcess;

/** What makes a process or the network slow: bounds of a message's time, in milliseconds. */
const SLOW = [50, 120] as const;

/** Nodes of mutexes and of read/write locks. */
const LOCK_NODE = /(lock-|__READ__|__WRIT__)\d{10}$/;

/** Which operation's reply is lost. */
const LOST_REPLIES = {
  'lose create reply': 'create',
  'lose delete reply': 'delete',
  'lose listing reply': 'getChildren2',
  'lose sync reply': 'sync',
} as const;

/** Brings about the faults of a plan, each at its time. */
export class Nemesis {
  constructor(
    private readonly world: World,
    private readonly members: Members,
    private readonly history: History,
    private readonly setting: Setting,
    /** The client of somebody who is no part of the workload. */
    private readonly operator: ZkClient,
  ) {}

  /** Resolves when the last fault has ended. */
  async run(faults: readonly (Fault & { kind: FaultKind })[]): Promise<void> {
    await Promise.all(
      faults.map(async (fault) => {
        await this.world.sleep(fault.from - this.world.now);
        const undo = this.#strike(fault);
        await this.world.sleep(fault.until - this.world.now);
        undo();
      }),
    );
  }

  #strike({ kind, target, from, until }: Fault & { kind: FaultKind }): () => void {
    if (target.startsWith('server')) return this.#strikeServer(kind, target);
    const member = this.members.present(target);
    const none = () => {};
    // A fault may meet a process that is gone at the moment.
    if (!member || member.process.crashed) return none;
    const { process, life } = member;
    const { session } = life;
    const { link } = process;
    switch (kind) {
      case 'pause':
        process.pause();
        return () => this.#resume(member.name, process);
      case 'block':
        void process.run(() => {
          process.block(until - from);
          this.members.askWhatIsHeld(member);
        });
        return none;
      case 'crash':
      case 'lose power':
        this.members.crash(member, kind === 'lose power');
        return () => this.members.start(target);
      case 'shut down':
        this.members.shutDown(member);
        return () => this.members.start(target);
      case 'cut':
      case 'cut until the session is over':
        return link.cut('both');
      case 'cut requests':
        return link.cut('requests');
      case 'cut replies':
        return link.cut('replies');
      case 'reset':
        link.reset();
        return none;
      case 'refuse': {
        const undo = link.refuseConnections();
        link.reset();
        return undo;
      }
      case 'slow network': {
        link.latency = SLOW;
        return () => (link.latency = this.setting.latency);
      }
      case 'lose create reply and refuse': {
        if (session === undefined) return none;
        this.world.loseReply('create', session);
        return link.refuseConnections();
      }
      case 'late replies, then silence':
        return this.#lateReplies(link, from, until);
      case 'lose create reply':
      case 'lose delete reply':
      case 'lose listing reply':
      case 'lose sync reply':
        // Without a session of its own, the fault would strike another process.
        if (session === undefined) return none;
        this.world.loseReply(LOST_REPLIES[kind], session);
        if (kind === 'lose sync reply') link.reset();
        return none;
      case 'expire session':
        if (session !== undefined) this.#expire(session);
        return none;
      case 'delete node':
        if (session !== undefined) this.#deleteNode(session);
        return none;
      case 'step clock forward':
        process.stepClock(this.setting.sessionTimeout * 0.6);
        return none;
      case 'step clock back':
        process.stepClock(-3_600_000);
        return none;
      default:
        throw new Error(`the fault ${kind} strikes no process`);
    }
  }

  #strikeServer(kind: FaultKind, target: string): () => void {
    const { servers } = this.world;
    const server = servers[Number(target.slice('server '.length)) - 1]!;
    switch (kind) {
      case 'crash server':
        server.crash();
        return () => server.restart();
      case 'unplug server':
        server.crash({ silently: true });
        return () => server.restart();
      case 'pause server':
        server.pause();
        return () => server.resume();
      case 'crash all servers':
        for (const each of servers) each.crash();
        return () => {
          for (const each of servers) each.restart();
        };
      default:
        throw new Error(`the fault ${kind} strikes no server`);
    }
  }

  #resume(name: string, process: SimulatedProcess): void {
    const member = this.members.present(name);
    // Half of the time the first code after the pause asks what it holds; otherwise replies and timers are first.
    if (member?.process === process && this.world.random.chance(0.5)) {
      void process.run(() => this.members.askWhatIsHeld(member)).catch(() => {});
    }
    process.resume();
  }

  /** The servers hear the process until half of the time is over, and the process hears their answers only then. */
  #lateReplies(link: Link, from: number, until: number): () => void {
    const half = Math.min((until - from) / 2, this.setting.sessionTimeout * 0.4);
    const deliver = link.cut('replies');
    let heal = () => {};
    this.world.at(from + half, () => {
      heal = link.cut('requests');
      deliver();
    });
    return () => {
      deliver();
      heal();
    };
  }

  /** Deletes the node of a lock of this client, as an operator would who believes it to be left over. */
  #deleteNode(session: string): void {
    const own = this.world
      .znodes(ROOT)
      .filter((znode) => znode.session === session && LOCK_NODE.test(znode.path));
    if (own.length === 0) return;
    const { path } = this.world.random.pick(own);
    const at = this.world.now;
    const key = path.slice(ROOT.length + 1, path.lastIndexOf('/'));
    this.history.deletions.push({ at, key, session });
    void this.operator.delete(path).catch(() => {});
  }

  #expire(session: string): void {
    if (this.world.sessionIds.includes(session)) this.world.expireSession(session);
  }
}
