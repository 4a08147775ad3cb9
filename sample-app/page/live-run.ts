import { useEffect, useReducer, useRef } from 'preact/hooks';
import type { Hello, InstanceStatus, Status } from '../live/events.js';
import { EMPTY_RUN, reduce } from './run/model.js';
import type { RunModel } from './run/run-model.js';
import { ServerClock } from './server-clock.js';
import type { Source } from './source.js';

/** A state that was confirmed longer ago than these milliseconds is not shown as live. */
export const STALE_AFTER = 1_000;
/** Milliseconds between two drawings of a page on which time passes. */
const TICK = 100;

/** What the page knows now. */
export interface LiveRun {
  readonly run: RunModel;
  readonly hello?: Omit<Hello, 'events'>;
  readonly status?: Status;
  /** The time of the server, as far as the page knows it. */
  readonly now: number;
  /** Whether the connection to the server was lost. */
  readonly isDisconnected: boolean;
  /** Milliseconds since the last status. Undefined before the first one. */
  readonly statusAge?: number;
  /** Milliseconds since the ensemble last answered the server. */
  readonly ensembleAge?: number;
}

/** Receives events and states, and draws the page again when they come or time passes. */
export function useLiveRun(source: Source): LiveRun {
  const [, redraw] = useReducer((count: number) => count + 1, 0);
  const known = useRef<{
    run: RunModel;
    hello?: Omit<Hello, 'events'>;
    status?: Status;
    isDisconnected: boolean;
    clock: ServerClock;
  }>({ run: EMPTY_RUN, isDisconnected: false, clock: new ServerClock() });

  useEffect(() => {
    const disconnect = source.connect({
      onHello: ({ events, ...hello }) => {
        const { status } = known.current;
        // A server that started again counts from zero.
        const isSameServer = status && status.at <= hello.now;
        const run = reduce(EMPTY_RUN, events);
        const clock = new ServerClock();
        clock.set(hello.now);
        known.current = {
          run,
          hello,
          status: isSameServer ? status : undefined,
          isDisconnected: false,
          clock,
        };
        redraw(undefined);
      },
      onEvents: (events) => {
        known.current.run = reduce(known.current.run, events);
        redraw(undefined);
      },
      onStatus: (status) => {
        known.current.status = status;
        known.current.clock.set(status.at);
        redraw(undefined);
      },
      onDisconnected: () => {
        known.current.isDisconnected = true;
        redraw(undefined);
      },
    });
    const timer = setInterval(() => redraw(undefined), TICK);
    return () => {
      clearInterval(timer);
      disconnect();
    };
  }, [source]);

  const { run, hello, status, isDisconnected, clock } = known.current;
  const now = Math.max(source.now?.() ?? clock.now, run.latest);
  return {
    run,
    hello,
    status,
    now,
    isDisconnected,
    statusAge: status && Math.max(0, now - status.at),
    ensembleAge: status && ageOf(status.ensemble, now),
  };
}

const ageOf = ({ confirmedAt = 0 }: { confirmedAt?: number }, now: number) =>
  Math.max(0, now - confirmedAt);

/** Since when the state of an instance is not confirmed, if that is longer than a second ago. */
export function unconfirmedSince(
  instance: InstanceStatus,
  { now, statusAge = 0 }: Pick<LiveRun, 'now' | 'statusAge'>,
): number | undefined {
  if (statusAge > STALE_AFTER) return now - statusAge;
  // The server of the page knows of itself that a process is dead.
  if (instance.life !== 'alive') return undefined;
  const age = ageOf(instance, now);
  return age > STALE_AFTER ? now - age : undefined;
}
