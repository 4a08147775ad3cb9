import { strictEqual } from 'node:assert';
import type { Stat } from '../../lib/protocol/index.js';
import { RawClient, type RawConnectOptions } from './raw-client.js';
import { RecordedClient } from './recorded-client.js';

/**
 * Runs a script on one server and records everything that the server sent, in a form that can be
 * compared with another server.
 */
export class Recorder {
  readonly transcript: unknown[] = [];
  #baseZxid = 0;
  #sessions: bigint[] = [];
  #clients: RecordedClient[] = [];

  constructor(
    readonly port: number,
    readonly restartServer: () => Promise<void>,
  ) {}

  async connect(name: string, options: Partial<RawConnectOptions> = {}): Promise<RecordedClient> {
    const raw = await RawClient.connect({ port: this.port, ...options });
    const client = new RecordedClient(name, raw, this);
    this.#clients.push(client);
    if (this.#baseZxid === 0) this.#baseZxid = (await raw.ping()).zxid;
    const { timeout, sessionId, password, readOnly } = raw.session;
    this.note(name, 'connect', { timeout, session: this.session(sessionId), readOnly });
    // The password of a refused session is zeros; any other password is random.
    this.note(name, 'password is zero', Buffer.from(password!).equals(Buffer.alloc(16)));
    return client;
  }

  note(...entry: unknown[]): void {
    this.transcript.push(entry);
  }

  /** Zxids are recorded relative to the script's first session; 0 and −1 are special and stay. */
  zxid(value: number): number | string {
    return value <= 0 ? value : `+${value - this.#baseZxid}`;
  }

  session(id: bigint): string {
    if (id === 0n) return 'none';
    if (!this.#sessions.includes(id)) this.#sessions.push(id);
    return `session ${this.#sessions.indexOf(id) + 1}`;
  }

  stat(stat: Stat) {
    strictEqual(stat.mtime >= stat.ctime, true, 'a node is not modified before it is created');
    return {
      ...stat,
      czxid: this.zxid(stat.czxid),
      mzxid: this.zxid(stat.mzxid),
      pzxid: this.zxid(stat.pzxid),
      ctime: stat.ctime === 0 ? 0 : 'then',
      mtime: stat.mtime === 0 ? 0 : 'then',
      ephemeralOwner: this.session(stat.ephemeralOwner),
    };
  }

  /**
   * Returns what each client received, in order. Closes all sessions, so that none expires during
   * the next script.
   */
  async finish(): Promise<unknown[]> {
    for (const { name, raw } of this.#clients) {
      await raw.drop();
      this.note(name, 'received', raw.received);
    }
    const alive = this.#clients.filter(({ raw }) => raw.session.sessionId !== 0n);
    for (const { sessionId, password } of alive.map(({ raw }) => raw.session)) {
      const { port } = this;
      const client = await RawClient.connect({ port, sessionId, password: password! });
      if (client.session.sessionId !== 0n) await client.closeSession();
    }
    return this.transcript;
  }
}
