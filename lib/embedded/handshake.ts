import type { ConnectRequest, ConnectResponse, ValueOf } from '../protocol/index.js';
import type { ServerProfile } from './profiles.js';
import { NO_PASSWORD, type Session } from './sessions.js';
import type { ConnectionStore } from './store.js';

type Request = ValueOf<typeof ConnectRequest>;
type Response = ValueOf<typeof ConnectResponse>;

/** The server as a handshake uses it. */
export interface HandshakeHost {
  readonly profile: ServerProfile;
  readonly store: ConnectionStore;
  /** Closes the connection that has this session, if any. */
  detach(sessionId: bigint): void;
}

/** The protocol version in the reply of a ClickHouse Keeper that refuses a handshake. */
const REFUSED_VERSION = 42;

/** Returns whether the client has seen a later state than this server, so that it must find another one. */
export function isBehind({ profile, store }: HandshakeHost, { lastZxidSeen }: Request): boolean {
  return profile.checksLastZxid && lastZxidSeen > store.lastZxid;
}

/**
 * Opens a session, or resumes the one of the request. Returns undefined if the session cannot be resumed.
 *
 * @param timeout milliseconds, as negotiated
 */
export function openSession(
  host: HandshakeHost,
  { sessionId, password }: Request,
  timeout: number,
): Session | undefined {
  const { store, profile } = host;
  const now = store.clock.now();
  if (sessionId === 0n || !profile.resumesSessions) return store.openSession(timeout);
  // The real server closes the session's earlier connection before it looks at the password.
  host.detach(sessionId);
  const session = store.sessions.get(sessionId);
  if (!session) return undefined;
  if (password === null || !Buffer.from(session.password).equals(password)) return undefined;
  store.sessions.touch(session, timeout, now);
  return session;
}

/** Returns the reply to a handshake whose session was opened or resumed. */
export function acceptance(
  { repliesReadOnly }: ServerProfile,
  { readOnly }: Request,
  { id, password }: Session,
  timeout: number,
): Response {
  return {
    protocolVersion: 0,
    timeout,
    sessionId: id,
    password: Buffer.from(password),
    readOnly: repliesReadOnly && readOnly !== undefined ? false : undefined,
  };
}

/**
 * Returns the reply to a handshake that is refused.
 *
 * @param timeout the reason: 0 if the session has ended; the negotiated timeout if the server has no leader
 */
export function refusal(profile: ServerProfile, request: Request, timeout: number): Response {
  const { marksRefusals, repliesReadOnly } = profile;
  return {
    protocolVersion: marksRefusals ? REFUSED_VERSION : 0,
    timeout,
    sessionId: 0n,
    password: Buffer.from(NO_PASSWORD),
    readOnly: repliesReadOnly && request.readOnly !== undefined ? false : undefined,
  };
}
