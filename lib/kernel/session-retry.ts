import { isCode } from '../client/errors.js';
import {
  ConnectionError,
  SessionExpiredError,
  type Session,
  type ZkClient,
} from '../client/index.js';
import { sleep } from '../client/sleep.js';

/*
 * The rules for a request without a reply. A read is repeated in its session. A write whose reply was lost (`maybeApplied`)
 * is repeated only if applying it twice has the effect of once, or after a look at what it has done.
 */

/**
 * Waits until the client is connected, as long as its retry policy allows.
 *
 * @throws SessionExpiredError if the client has another session by then; ConnectionError
 */
export async function assertSameSession(
  client: ZkClient,
  session: Session,
  signal?: AbortSignal,
): Promise<void> {
  if ((await client.session({ signal })) !== session) {
    throw new SessionExpiredError('the session ended');
  }
}

/**
 * Resolves when the session has a connection. In contrast to {@link assertSameSession} it waits longer than the retry
 * policy: a lock blocks others as long as its session lives, so its owner must delete it.
 *
 * @throws SessionExpiredError if the session ended
 */
export async function waitForConnection(client: ZkClient, session: Session): Promise<void> {
  while (session.alive) {
    if (session.connected) return;
    await stateChange(client);
  }
  throw new SessionExpiredError('the session ended');
}

/** Repeats a read after a lost connection, but only in the same session. */
export async function retryRead<T>(
  client: ZkClient,
  session: Session,
  read: () => Promise<T>,
  signal?: AbortSignal,
): Promise<T> {
  for (;;) {
    try {
      return await read();
    } catch (error) {
      if (!(error instanceof ConnectionError)) throw error;
      await assertSameSession(client, session, signal);
    }
  }
}

/**
 * Repeats a request after a lost connection, as long as the session lives. Resolves to undefined if the znode does not exist
 * or has another version.
 */
export async function retryInSession<T>(
  client: ZkClient,
  session: Session,
  request: () => Promise<T>,
): Promise<T | undefined> {
  for (;;) {
    try {
      return await request();
    } catch (error) {
      if (isCode(error, 'NO_NODE') || isCode(error, 'BAD_VERSION')) return undefined;
      if (!(error instanceof ConnectionError)) throw error;
      await waitForConnection(client, session);
    }
  }
}

/** Whether a request failed because the connection broke or the session ended. */
export function isConnectionLoss(error: unknown): boolean {
  return error instanceof ConnectionError || error instanceof SessionExpiredError;
}

/** Whether the reply to a write was lost, so that it may have been applied. */
export function isLostReply(error: unknown): error is ConnectionError {
  return error instanceof ConnectionError && error.maybeApplied;
}

/** Repeats a write until it gets a reply. A write that is applied twice must have the effect of one. */
export async function retryLostReply<T>(write: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await write();
    } catch (error) {
      if (!isLostReply(error)) throw error;
    }
  }
}

/** Resolves at the next change of the state of the connection. */
export function stateChange(client: ZkClient): Promise<void> {
  return new Promise((resolve) => {
    const unsubscribe = client.onState(() => {
      unsubscribe();
      resolve();
    });
  });
}

/** The longest pause between two attempts in one session, in milliseconds. */
const MAX_PAUSE = 1000;

/**
 * Calls `attempt` until it resolves to a value: again in the next session after a session has ended, and in the same one
 * after `undefined`. From the second repetition in a session on it pauses, up to one second, because a broken server may never
 * list our znode.
 *
 * @param onError called with any other error. It throws to end the loop
 * @param first where to begin; default: the current session
 * @throws what `onError` throws; after an abort of `signal` what `attempt` throws
 */
export async function inEachSession<T>(
  client: ZkClient,
  signal: AbortSignal,
  attempt: (session: Session) => Promise<T | undefined>,
  onError: (error: unknown) => Promise<void> | void,
  first?: Session,
): Promise<T> {
  let pause = 0;
  for (let next = first; ; next = undefined) {
    try {
      const session = next ?? (await client.session({ signal }));
      const result = await attempt(session);
      if (result !== undefined) return result;
      const until = (wake: () => void) => session.onLost(wake);
      if (pause > 0) await sleep(pause, { signals: [signal], until });
      pause = Math.min(MAX_PAUSE, 2 * pause + 10);
    } catch (error) {
      if (signal.aborted) throw error;
      // The end of a session is no failure.
      if (!(error instanceof SessionExpiredError)) await onError(error);
    }
  }
}

/** As {@link inEachSession}, but any other error than the end of a session ends it. */
export function retryAcrossSessions<T>(
  client: ZkClient,
  signal: AbortSignal,
  attempt: (session: Session) => Promise<T | undefined>,
  first?: Session,
): Promise<T> {
  const onError = (error: unknown) => {
    throw error;
  };
  return inEachSession(client, signal, attempt, onError, first);
}
