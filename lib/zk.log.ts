import type { Logger } from '@nestjs/common';
import type { ZkClient } from './client/index.js';
import { listen } from './client/diagnostics.js';
import { holds, leaders, waits } from './recipes/diagnostics.js';
import type { ObservedLock } from './recipes/index.js';

/*
 * What the log says of one connection: a line for each change of state and of the lead, none for a lease
 * unless it is asked for. Each function returns what ends it.
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

/** For whoever asks for it: two lines a lease. */
export function logLeases(client: ZkClient, logger: Logger): () => void {
  const about = ({ noun, key }: ObservedLock) => `${noun} ${JSON.stringify(key)}`;
  const ms = (duration: number) => `after ${duration.toFixed(1)} ms`;
  const stops = [
    listen(waits, (message) => {
      const { event, wait } = message;
      if (event === 'began' || wait.lock.client !== client) return;
      const how = event === 'granted' ? `granted, ${message.kind},` : `not granted, ${event},`;
      logger.debug(`${about(wait.lock)} ${how} ${ms(message.duration)}`);
    }),
    listen(holds, (message) => {
      const { event, hold } = message;
      if (event === 'began' || hold.lock.client !== client) return;
      const line = `${about(hold.lock)} ${event} ${ms(message.duration)}, fencing token ${hold.fencingToken}`;
      if (event === 'lost') logger.warn(`${line}: ${message.reason.message}`);
      else logger.debug(line);
    }),
  ];
  return () => stops.forEach((stop) => stop());
}
