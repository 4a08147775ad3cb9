import {
  type ChildProcessWithoutNullStreams,
  execFile,
  spawn,
  spawnSync,
} from 'node:child_process';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { CURATOR_JARS, missingJar } from '../support/harness.js';
import { RealZooKeeper } from '../support/real-zookeeper.js';

const SOURCES = fileURLToPath(new URL('java/', import.meta.url));

/** Time limit in milliseconds for the reply to one request, which may be a whole contention. */
const PATIENCE = 60_000;

interface ConsumerOptions {
  kind?: 'plain' | 'priority';
  delay?: number;
  last?: string;
}

type Settle = { resolve: (words: string[]) => void; reject: (error: Error) => void };

/**
 * A Java process with Apache Curator that performs requests of the tests. See
 * java/CuratorPeer.java.
 */
export class Curator implements AsyncDisposable {
  private readonly answers = new Map<string, Settle>();
  private readonly visits = new Map<string, () => Promise<void>>();
  private readonly events: string[] = [];
  private readonly listeners = new Set<() => void>();
  private requests = 0;
  private dead: Error | undefined;
  private complaints = '';

  private constructor(
    private readonly child: ChildProcessWithoutNullStreams,
    private readonly classes: string,
  ) {
    createInterface(child.stdout).on('line', (line) => this.take(line));
    child.stderr.on('data', (chunk: Buffer) => (this.complaints += chunk.toString()));
    child.stdin.on('error', () => {});
    child.on('close', (code) => {
      this.dead = new Error(`the Java process ended with ${code}: ${this.complaints}`);
      for (const { reject } of this.answers.values()) reject(this.dead);
      this.wake();
    });
  }

  /** Returns why this machine cannot run it, or undefined if it can. */
  static missing(): string | undefined {
    if (spawnSync('javac', ['-version']).status !== 0) return 'no JDK (javac)';
    if (!RealZooKeeper.isInstalled()) return 'no Debian package "zookeeper"';
    const jar = missingJar(CURATOR_JARS);
    return jar && `no ${jar} (Debian package "libcurator-recipes-java")`;
  }

  /**
   * Compiles the Java side, starts it and waits for its session. @param sessionTimeout in
   * milliseconds
   */
  static async start(connectString: string, sessionTimeout = 10_000): Promise<Curator> {
    const classes = await mkdtemp(join(tmpdir(), 'curator-'));
    const classPath = CURATOR_JARS.join(':');
    const sources = (await readdir(SOURCES)).map((file) => join(SOURCES, file));
    await promisify(execFile)('javac', ['-cp', classPath, '-d', classes, ...sources]);
    const child = spawn('java', [
      '-Xmx128m',
      '-XX:+UseSerialGC',
      '-XX:TieredStopAtLevel=1',
      '-Dfile.encoding=UTF-8',
      '-cp',
      `${classes}:${classPath}`,
      'CuratorPeer',
      connectString,
      String(sessionTimeout),
    ]);
    const curator = new Curator(child, classes);
    await curator.event('ready');
    return curator;
  }

  /**
   * Acquires a lock under a name for its release; returns false on timeout. java/Locks.java
   * documents the notation of locks.
   */
  async acquire(name: string, lock: string, wait = PATIENCE): Promise<boolean> {
    return (await this.ask('acquire', name, lock, wait))[0] === 'true';
  }

  /**
   * As acquire(), for a holder that releases on a revocation request and then sends the event
   * `revoked <name>`.
   */
  async acquireRevocable(name: string, lock: string): Promise<boolean> {
    return (await this.ask('acquire-revocable', name, lock, PATIENCE))[0] === 'true';
  }

  /** Acquires again on the thread of that name. */
  async acquireAgain(name: string, wait = PATIENCE): Promise<boolean> {
    return (await this.ask('acquire-again', name, wait))[0] === 'true';
  }

  async release(name: string): Promise<void> {
    await this.ask('release', name);
  }

  /**
   * Acquires and releases a lock `times` times on one thread. Inside it calls `visit` and waits for
   * its end.
   */
  async contend(lock: string, rounds: number, visit: () => Promise<void>): Promise<void> {
    const id = String(this.requests + 1);
    this.visits.set(id, visit);
    await this.ask('contend', lock, rounds);
    this.visits.delete(id);
  }

  /**
   * Returns paths in Curator's order; for an election the ids, with `:leader` after the leader's.
   */
  participants(lock: string): Promise<string[]> {
    return this.ask('participants', lock);
  }

  async revoke(participant: string): Promise<void> {
    await this.ask('revoke', participant);
  }

  /** Starts a shared count. Each change of it is an event `count <path> <value>`. */
  async startCount(path: string, seed: number): Promise<void> {
    await this.ask('count', 'start', path, seed);
  }

  async setCount(path: string, value: number): Promise<void> {
    await this.ask('count', 'set', path, value);
  }

  /**
   * Sets the count with the version that Curator knows; returns false if that is not the latest.
   */
  async trySetCount(path: string, value: number): Promise<boolean> {
    return (await this.ask('count', 'try-set', path, value))[0] === 'true';
  }

  async getCount(path: string): Promise<number> {
    return Number((await this.ask('count', 'get', path))[0]);
  }

  async closeCount(path: string): Promise<void> {
    await this.ask('count', 'close', path);
  }

  /** Joins a group as Curator's GroupMember. */
  async joinGroup(id: string, path: string, data: string): Promise<void> {
    await this.ask('member', 'join', id, path, data);
  }

  async setMemberData(id: string, data: string): Promise<void> {
    await this.ask('member', 'set', id, data);
  }

  /** Returns the members that a member sees, as `id=data`, sorted. */
  async membersSeenBy(id: string): Promise<string[]> {
    return (await this.ask('member', 'current', id)).filter(Boolean);
  }

  async leaveGroup(id: string): Promise<void> {
    await this.ask('member', 'leave', id);
  }

  /** Calls a method of a counter, see java/Counters.java. Returns Curator's `succeeded`, `preValue` and `postValue`. */
  async counter(
    method: 'get' | 'add' | 'compare-and-set',
    path: string,
    ...values: bigint[]
  ): Promise<{ succeeded: boolean; preValue: bigint; postValue: bigint }> {
    const [succeeded, pre, post] = await this.ask('counter', method, path, ...values.map(String));
    return { succeeded: succeeded === 'true', preValue: BigInt(pre!), postValue: BigInt(post!) };
  }

  async initializeCounter(path: string, value: bigint): Promise<boolean> {
    return (await this.ask('counter', 'initialize', path, String(value)))[0] === 'true';
  }

  /** Increments a counter on four threads, and returns the new values. Without a lock path it is not promoted. */
  async increment(path: string, times: number, lockPath = 'none'): Promise<bigint[]> {
    return (await this.ask('counter', 'increment', path, lockPath, times)).map(BigInt);
  }

  /** Starts a PersistentNode, and resolves when its znode exists. */
  async keepNode(path: string, mode: 'EPHEMERAL' | 'PERSISTENT' | 'CONTAINER', data: string) {
    await this.ask('node', 'keep', path, mode, data);
  }

  /** As keepNode(), for a PersistentTtlNode. */
  async keepTtlNode(path: string, ttl: number, data: string): Promise<void> {
    await this.ask('node', 'keep-ttl', path, ttl, data);
  }

  async closeNode(path: string): Promise<void> {
    await this.ask('node', 'close', path);
  }

  async setBarrier(path: string): Promise<void> {
    await this.ask('barrier', 'set', path);
  }

  async removeBarrier(path: string): Promise<void> {
    await this.ask('barrier', 'remove', path);
  }

  /** Returns false on timeout. */
  async waitOnBarrier(path: string, wait = PATIENCE): Promise<boolean> {
    return (await this.ask('barrier', 'wait', path, wait))[0] === 'true';
  }

  /** Creates a member of a double barrier under a name. */
  async joinBarrier(name: string, path: string, members: number): Promise<void> {
    await this.ask('barrier', 'join', name, members, path);
  }

  /** Returns false on timeout. */
  async enterBarrier(name: string, wait = PATIENCE): Promise<boolean> {
    return (await this.ask('barrier', 'enter', name, wait))[0] === 'true';
  }

  /** Returns false on timeout. */
  async leaveBarrier(name: string, wait = PATIENCE): Promise<boolean> {
    return (await this.ask('barrier', 'leave', name, wait))[0] === 'true';
  }

  /** Starts a CuratorCache, and resolves when it is initialized. */
  async startCache(path: string): Promise<void> {
    await this.ask('cache', 'start', path);
  }

  /** Returns `path=mzxid` of each znode in the cache. */
  cacheState(path: string): Promise<string[]> {
    return this.ask('cache', 'state', path);
  }

  /** Returns `path=mzxid` of each created and changed znode, in the order of the events. */
  cacheHistory(path: string): Promise<string[]> {
    return this.ask('cache', 'history', path);
  }

  /** Creates, sets and deletes znodes at random. Returns `path=mzxid` of each create and set. */
  writeTree(path: string, steps: number, seed: number): Promise<string[]> {
    return this.ask('cache', 'write', path, steps, seed);
  }

  async closeCache(path: string): Promise<void> {
    await this.ask('cache', 'close', path);
  }

  /** Puts words, each into a znode of its own, into the queue at `path` with the lock path `<path>-locks`. */
  async putItems(path: string, ...items: string[]): Promise<void> {
    await this.ask('queue', 'put', path, ...items);
  }

  /** Puts words into one znode. */
  async putMulti(path: string, ...items: string[]): Promise<void> {
    await this.ask('queue', 'put-multi', path, ...items);
  }

  async putWithPriority(path: string, priority: number, ...items: string[]): Promise<void> {
    await this.ask('queue', 'put-priority', path, priority, ...items);
  }

  /**
   * Starts a consumer of a queue. Its handler takes `delay` milliseconds. For the item `last` it sends the event
   * `handling <last>` and never ends.
   */
  async consume(
    path: string,
    { kind = 'plain', delay = 0, last = 'none' }: ConsumerOptions = {},
  ): Promise<void> {
    await this.ask('queue', 'consume', path, kind, delay, last);
  }

  /** Returns the items that the consumer has handled, or has begun to handle. */
  handledItems(path: string): Promise<string[]> {
    return this.ask('queue', 'handled', path);
  }

  async closeQueue(path: string): Promise<void> {
    await this.ask('queue', 'close', path);
  }

  /** Resolves when the event was received, now or earlier. Each event is consumed once. */
  async event(text: string): Promise<void> {
    let late = false;
    const timer = setTimeout(() => {
      late = true;
      this.wake();
    }, PATIENCE);
    while (!this.events.includes(text)) {
      if (late) throw new Error(`no event "${text}" within ${PATIENCE} ms`);
      if (this.dead) throw this.dead;
      await new Promise<void>((resolve) => this.listeners.add(resolve));
    }
    clearTimeout(timer);
    this.events.splice(this.events.indexOf(text), 1);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.dead) {
      const closed = once(this.child, 'close');
      this.child.kill('SIGKILL');
      await closed;
    }
    await rm(this.classes, { recursive: true, force: true });
  }

  private async ask(...words: (string | number)[]): Promise<string[]> {
    if (this.dead) throw this.dead;
    const id = String(++this.requests);
    let timer: NodeJS.Timeout | undefined;
    try {
      return await new Promise((resolve, reject) => {
        const late = new Error(`no reply to "${words.join(' ')}" within ${PATIENCE} ms`);
        timer = setTimeout(() => reject(late), PATIENCE);
        this.answers.set(id, { resolve, reject });
        this.say(id, ...words);
      });
    } finally {
      clearTimeout(timer);
      this.answers.delete(id);
    }
  }

  private wake(): void {
    for (const listener of this.listeners) listener();
    this.listeners.clear();
  }

  private say(...words: (string | number)[]): void {
    this.child.stdin.write(`${words.join(' ')}\n`);
  }

  private take(line: string): void {
    const [first = '', second = '', ...rest] = line.split(' ');
    if (first === 'event') {
      this.events.push([second, ...rest].join(' '));
      this.wake();
    } else if (first === 'visit') {
      void this.visit(second, rest[0]!);
    } else if (second === 'ok') {
      this.answers.get(first)?.resolve(rest);
    } else {
      this.answers.get(first)?.reject(new Error(`Curator: ${rest.join(' ')}`));
    }
  }

  private async visit(ticket: string, request: string): Promise<void> {
    await this.visits.get(request)?.();
    this.say('done', ticket);
  }
}
