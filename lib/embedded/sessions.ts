import { sessionPassword } from '../protocol/index.js';

export interface Session {
  readonly id: bigint;
  readonly password: Uint8Array;
  /** Milliseconds, as negotiated when the session began. */
  readonly timeout: number;
  expiresAt: number;
}

/** The password of a session that does not exist, or that needs none. */
export const NO_PASSWORD: Uint8Array = Buffer.alloc(16);

export type SavedSession = Omit<Session, 'expiresAt'>;

/** The sessions and their expiry. Callers pass in the time. */
export class Sessions {
  readonly #byId = new Map<bigint, Session>();
  #nextId: bigint;

  constructor(
    private readonly tickTime: number,
    now: number,
    saved: readonly SavedSession[] = [],
  ) {
    this.#nextId = firstId();
    for (const session of saved) {
      this.#add(session, now);
      if (session.id >= this.#nextId) this.#nextId = session.id + 1n;
    }
  }

  get size(): number {
    return this.#byId.size;
  }

  /** @param credentials the id and the password of the session. Default: those that Apache ZooKeeper would give */
  open(
    timeout: number,
    now: number,
    { id, password }: Pick<Session, 'id' | 'password'> = this.#newCredentials(),
  ): Session {
    return this.#add({ id, password, timeout }, now);
  }

  get(id: bigint): Session | undefined {
    return this.#byId.get(id);
  }

  /** Extends a session. `timeout` is that of its current connection, which may differ from the first one. */
  touch(session: Session, timeout: number, now: number): void {
    // ZooKeeper expires in ticks and rounds up: a session gets up to one tick of grace.
    session.expiresAt = (Math.floor((now + timeout) / this.tickTime) + 1) * this.tickTime;
  }

  /** Restarts the timeout of each session, as a new leader does. */
  touchAll(now: number): void {
    for (const session of this.#byId.values()) this.touch(session, session.timeout, now);
  }

  remove(id: bigint): void {
    this.#byId.delete(id);
  }

  list(): Session[] {
    return [...this.#byId.values()];
  }

  expired(now: number): Session[] {
    return this.list().filter((session) => session.expiresAt <= now);
  }

  save(): SavedSession[] {
    return this.list().map(savedSession);
  }

  #newCredentials(): Pick<Session, 'id' | 'password'> {
    const id = this.#nextId++;
    return { id, password: sessionPassword(id) };
  }

  #add(saved: SavedSession, now: number): Session {
    const session: Session = { ...saved, expiresAt: 0 };
    this.touch(session, session.timeout, now);
    this.#byId.set(session.id, session);
    return session;
  }
}

export function savedSession({ id, password, timeout }: Session): SavedSession {
  return { id, password, timeout };
}

/** Returns the id of a session in hexadecimal, as clients and logs write it. */
export function toHex(session: bigint): string {
  return BigInt.asUintN(64, session).toString(16);
}

// ZooKeeper's own scheme, server id 1: a later start never hands out an earlier start's ids.
function firstId(): bigint {
  return (1n << 56n) | (BigInt.asUintN(64, BigInt(Date.now()) << 24n) >> 8n);
}
