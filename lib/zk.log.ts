import type { Logger } from '@nestjs/common';
import { foreignText, quotedKey } from './client/errors.js';
import type { DeleteRefusedMessage, ServerKind, ZkClient } from './client/index.js';
import { DELETE_REFUSED_CHANNEL, listen, typedChannel } from './client/diagnostics.js';
import { failedConnects } from './client/zk-client.js';
import {
  deadHolders,
  follows,
  holds,
  leaders,
  type ObservedLock,
  waits,
} from './kernel/diagnostics.js';

/*
 * The log lines of one connection: one for each change of its state and of a leadership; with `logLeases`
 * two for each lease. Each function returns a function that ends the logging.
 *
 * No line and no error of the library has the id of a session: ZooKeeper computes the password of the session from it.
 */

/** Milliseconds between two lines about a lost connection. */
const REMINDER_PERIOD = 5000;
/** The number of failed attempts of the first connect that have a line each. Later ones have one in each period. */
const LOGGED_ATTEMPTS = 10;

const SERVERS: Readonly<Record<Exclude<ServerKind, 'zookeeper'>, string>> = {
  'clickhouse-keeper': 'ClickHouse Keeper, which ends the session with the connection',
  raftkeeper: 'RaftKeeper, or ClickHouse Keeper before 23.6, with unsafe fencing tokens',
  unknown: 'a server of an unknown kind',
};

/**
 * Logs each change of the state, and a server that is not Apache ZooKeeper. While the connection is lost, a reminder follows
 * every five seconds.
 */
export function logStates(client: ZkClient, logger: Logger): () => void {
  let reminder: NodeJS.Timeout | undefined;
  let lostAt: number | undefined;
  let failure: unknown;
  let server: ServerKind | undefined;
  const remind = () => {
    const seconds = Math.round((performance.now() - lostAt!) / 1000);
    logger.warn(`still ${client.state} after ${seconds} s: ${messageOf(failure)}`);
  };
  const stops = [
    listen(failedConnects, (message) => {
      if (message.client === client) failure = message.error;
    }),
    client.onState(({ state, reason }) => {
      clearInterval(reminder);
      if (state === 'SUSPENDED' || state === 'LOST') {
        logger.warn(`${state}${reason ? `: ${reason.message}` : ''}`);
        lostAt ??= performance.now();
        failure = reason;
        reminder = setInterval(remind, REMINDER_PERIOD).unref();
      } else if (state !== 'CONNECTING') {
        logger.log(state);
        lostAt = undefined;
        const current = client.serverKind;
        if (current && current !== server && current !== 'zookeeper') {
          logger.warn(
            `the server is not Apache ZooKeeper: it is ${SERVERS[current]}; empty directories of locks remain, and each cold grant takes one more request`,
          );
        }
        server = current;
      }
    }),
  ];
  return () => {
    clearInterval(reminder);
    stops.forEach((stop) => stop());
  };
}

/** Warns about failed attempts of the first connect that another attempt follows. The last failure rejects the connect. */
export function logFailedConnects(client: ZkClient, logger: Logger): () => void {
  let loggedAt = -Infinity;
  return listen(failedConnects, ({ client: failed, error, attempt, pause }) => {
    if (failed !== client || client.state !== 'CONNECTING' || pause === undefined) return;
    const now = performance.now();
    if (attempt > LOGGED_ATTEMPTS && now < loggedAt + REMINDER_PERIOD) return;
    loggedAt = now;
    const next = `attempt ${attempt + 1} follows in ${Math.round(pause)} ms`;
    logger.warn(`attempt ${attempt} to connect failed: ${messageOf(error)}; ${next}`);
  });
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Warns once for each directory in which a server refuses to delete znodes. */
export function logRefusedDeletes(client: ZkClient, logger: Logger): () => void {
  return listen(typedChannel<DeleteRefusedMessage>(DELETE_REFUSED_CHANNEL), (refused) => {
    if (refused.client !== client || !refused.first) return;
    refused.logged = true;
    logger.warn(refused.message);
  });
}

/** Warns once for each znode of a process of this host that has ended, while its session keeps a lock. */
export function logDeadHolders(client: ZkClient, logger: Logger): () => void {
  return listen(deadHolders, (message) => {
    if (message.client !== client || !message.first) return;
    logger.warn(
      `${message.message}. Shutdown hooks release the locks of a stopped process; in development, sessionFile releases those of a killed one`,
    );
  });
}

export function logFollows(client: ZkClient, logger: Logger): () => void {
  return listen(follows, ({ candidate, leader }) => {
    if (candidate.client !== client) return;
    const who = `${JSON.stringify(candidate.key)} as ${candidate.id}`;
    logger.log(`follows in election ${who}; ${foreignText(leader.id)} leads`);
  });
}

export function logLeaders(client: ZkClient, logger: Logger): () => void {
  return listen(leaders, (message) => {
    if (message.candidate.client !== client) return;
    const { election, participantId, fencingToken } = message.term;
    if (message.event === 'elected') {
      const who = `${JSON.stringify(election)} as ${participantId}`;
      logger.log(`leads election ${who}, fencing token ${fencingToken}`);
    } else {
      logger[message.event === 'demoted' ? 'warn' : 'log'](message.reason.message);
    }
  });
}

export function logLeases(client: ZkClient, logger: Logger): () => void {
  const nameOf = ({ noun, key }: ObservedLock) => `${noun} ${quotedKey(key)}`;
  const after = (duration: number) => `after ${duration.toFixed(1)} ms`;
  const stops = [
    listen(waits, (message) => {
      const { event, wait } = message;
      if (event === 'began' || wait.lock.client !== client) return;
      const how = event === 'granted' ? `granted, ${message.kind},` : `not granted, ${event},`;
      logger.debug(`${nameOf(wait.lock)} ${how} ${after(message.duration)}`);
    }),
    listen(holds, (message) => {
      const { event, hold } = message;
      if (event === 'began' || hold.lock.client !== client) return;
      const line = `${nameOf(hold.lock)} ${event} ${after(message.duration)}, fencing token ${hold.fencingToken}`;
      if (event === 'lost') logger.warn(`${line}: ${message.reason.message}`);
      else logger.debug(line);
    }),
  ];
  return () => stops.forEach((stop) => stop());
}
