import { type ChildProcessWithoutNullStreams, execFile, spawn } from 'node:child_process';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll } from 'vitest';
import { CURATOR_JARS } from '../../scripts/faults/jars.mjs';
import type { TestServer } from '../support/servers.js';

const SOURCES = fileURLToPath(new URL('java/', import.meta.url));

/** Milliseconds that Curator waits for a lock if a test does not say otherwise. */
const LOCK_WAIT = 60_000;

type Word = string | number | bigint;
type Settle = { resolve: (words: string[]) => void; reject: (error: Error) => void };

/** Returns a Java process that runs beside the tests of the file, on the file's server. */
export function useCurator(server: TestServer): Curator {
  const curator = new Curator();
  beforeAll(() => curator.start(server.connectString));
  afterAll(() => curator[Symbol.asyncDispose]());
  return curator;
}

/** A Java process with Apache Curator that performs requests of the tests. See java/CuratorPeer.java. */
export class Curator implements AsyncDisposable {
  private readonly answers = new Map<string, Settle>();
  private readonly visits = new Map<string, () => Promise<void>>();
  private readonly events: string[] = [];
  private readonly listeners = new Set<() => void>();
  private child!: ChildProcessWithoutNullStreams;
  private classes!: string;
  private requests = 0;
  private dead: Error | undefined;

  /**
   * Compiles the Java side, starts it and waits for its session.
   *
   * @param sessionTimeout in milliseconds
   */
  async start(connectString: string, sessionTimeout = 10_000): Promise<void> {
    this.classes = await mkdtemp(join(tmpdir(), 'curator-'));
    const classPath = CURATOR_JARS.join(':');
    const sources = (await readdir(SOURCES)).map((file) => join(SOURCES, file));
    await promisify(execFile)('javac', ['-cp', classPath, '-d', this.classes, ...sources]);
    const options = ['-Xmx128m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1'];
    const program = ['-Dfile.encoding=UTF-8', '-cp', `${this.classes}:${classPath}`, 'CuratorPeer'];
    const child = spawn('java', [...options, ...program, connectString, String(sessionTimeout)]);
    this.child = child;
    let complaints = '';
    createInterface(child.stdout).on('line', (line) => this.take(line));
    child.stderr.on('data', (chunk: Buffer) => (complaints += chunk.toString()));
    child.stdin.on('error', () => {});
    child.on('close', (code) => {
      this.dead = new Error(`the Java process ended with ${code}: ${complaints}`);
      for (const { reject } of this.answers.values()) reject(this.dead);
      this.wake();
    });
    await this.event('ready');
  }

  /** Performs a request, and returns the words of the reply. */
  async ask(...words: Word[]): Promise<string[]> {
    if (this.dead) throw this.dead;
    const id = String(++this.requests);
    try {
      return await new Promise((resolve, reject) => {
        this.answers.set(id, { resolve, reject });
        this.say(id, ...words);
      });
    } finally {
      this.answers.delete(id);
    }
  }

  /** Performs a request whose reply is true or false, such as a wait that may time out. */
  async succeeds(...words: Word[]): Promise<boolean> {
    return (await this.ask(...words))[0] === 'true';
  }

  /** Acquires a lock under a name for its release; returns false on timeout. java/Locks.java has the notation of locks. */
  acquire(name: string, lock: string, wait = LOCK_WAIT): Promise<boolean> {
    return this.succeeds('acquire', name, lock, wait);
  }

  /** As acquire(), for a holder that releases on a revocation request and then sends the event `revoked <name>`. */
  acquireRevocable(name: string, lock: string): Promise<boolean> {
    return this.succeeds('acquire-revocable', name, lock, LOCK_WAIT);
  }

  async release(name: string): Promise<void> {
    await this.ask('release', name);
  }

  /** Acquires and releases a lock `rounds` times on one thread. Inside it calls `visit` and waits for its end. */
  async contend(lock: string, rounds: number, visit: () => Promise<void>): Promise<void> {
    const id = String(this.requests + 1);
    this.visits.set(id, visit);
    await this.ask('contend', lock, rounds);
    this.visits.delete(id);
  }

  /** Returns paths in Curator's order; for an election the ids, with `:leader` after the leader's. */
  participants(lock: string): Promise<string[]> {
    return this.ask('participants', lock);
  }

  /** Resolves when the event was received, now or earlier. Each event is consumed once. */
  async event(text: string): Promise<void> {
    while (!this.events.includes(text)) {
      if (this.dead) throw this.dead;
      await new Promise<void>((resolve) => this.listeners.add(resolve));
    }
    this.events.splice(this.events.indexOf(text), 1);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.child && !this.dead) {
      const closed = once(this.child, 'close');
      this.child.kill('SIGKILL');
      await closed;
    }
    await rm(this.classes, { recursive: true, force: true });
  }

  private wake(): void {
    for (const listener of this.listeners) listener();
    this.listeners.clear();
  }

  private say(...words: Word[]): void {
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
