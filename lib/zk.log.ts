import type { Logger } from '@nestjs/common';
import type { DeleteRefusedMessage, ZkClient } from './client/index.js';
import { DELETE_REFUSED_CHANNEL, listen, typedChannel } from './client/diagnostics.js';
import { holds, leaders, waits } from './recipes/diagnostics.js';
import type { ObservedLock } from './recipes/index.js';

/*
 * The log lines of one connection: one for each change of its state and of a leadership; with `logLeases`
 * two for each lease. Each function returns a function that ends the logging.
 */

export function logStates(client: ZkClient, logger: Logger): () => void {
  return client.onState(({ state, sessionId, reason }) => {
    const session = sessionId ? ` session 0x${sessionId}` : '';
    if (state === 'SUSPENDED' || state === 'LOST') {
      logger.warn(`${state}${session}${reason ? `: ${reason.message}` : ''}`);
    } else {
      logger.log(`${state}${session}`);
    }
  });
}

/** Warns once for each directory in which a server refuses to delete znodes. */
export function logRefusedDeletes(client: ZkClient, logger: Logger): () => void {
  return listen(typedChannel<DeleteRefusedMessage>(DELETE_REFUSED_CHANNEL), (refused) => {
    if (refused.client !== client || !refused.first) return;
    refused.logged = true;
    logger.warn(refused.message);
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
  const nameOf = ({ noun, key }: ObservedLock) => `${noun} ${JSON.stringify(key)}`;
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
