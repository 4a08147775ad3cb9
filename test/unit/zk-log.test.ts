import type { Logger } from '@nestjs/common';
import type { StateChange } from 'nestjs-zookeeper/recipes';
import { ConnectionError, type ZkClient } from 'nestjs-zookeeper';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { failedConnects } from '../../lib/client/zk-client.js';
import { logFailedConnects, logStates } from '../../lib/zk.log.js';

/** A client whose changes of state the test makes, and the lines that a log has of it. */
function logged(start: (client: ZkClient, logger: Logger) => () => void) {
  let emit!: (change: StateChange) => void;
  const client = {
    state: 'CONNECTING' as StateChange['state'],
    onState: (listener: typeof emit) => {
      emit = listener;
      return () => {};
    },
  };
  const lines: string[] = [];
  const write = (line: string) => void lines.push(line);
  const observed = client as unknown as ZkClient;
  const stop = start(observed, { log: write, warn: write } as unknown as Logger);
  return {
    lines,
    stop,
    to(state: StateChange['state'], reason?: Error) {
      client.state = state;
      emit({ state, sessionId: 'a1', reason });
    },
    fail(message: string, pause: number | undefined, attempt = 1, by = observed) {
      failedConnects.publish({ client: by, error: new ConnectionError(message), attempt, pause });
    },
  };
}

beforeEach(() => void vi.useFakeTimers());
afterEach(() => {
  // First, because a spy restores the fake function that it replaced.
  vi.restoreAllMocks();
  vi.useRealTimers();
});

describe('while the connection is lost, the log', () => {
  it('has a line with the state and the latest failure every 5 seconds, until there is a connection', () => {
    const { lines, to, fail } = logged(logStates);
    to('CONNECTED');
    to('SUSPENDED', new Error('it broke'));
    vi.advanceTimersByTime(5000);
    fail('zk1:2181: no connection', 100);
    fail('of another client', 100, 1, {} as ZkClient);
    vi.advanceTimersByTime(5000);
    to('LOST', new Error('too late'));
    vi.advanceTimersByTime(4999);
    expect(lines.splice(0)).toEqual([
      'CONNECTED',
      'SUSPENDED: it broke',
      'still SUSPENDED after 5 s: it broke',
      'still SUSPENDED after 10 s: zk1:2181: no connection',
      'LOST: too late',
    ]);
    vi.advanceTimersByTime(1);
    expect(lines.splice(0)).toEqual(['still LOST after 15 s: too late']);
    to('CONNECTED');
    vi.advanceTimersByTime(60_000);
    expect(lines).toEqual(['CONNECTED']);
  });

  it('starts no timer that keeps the process alive, and none that outlives the logging', () => {
    const unref = vi.spyOn(globalThis, 'setInterval');
    const { lines, to, stop } = logged(logStates);
    to('SUSPENDED');
    expect((unref.mock.results[0]!.value as NodeJS.Timeout).hasRef()).toBe(false);
    stop();
    vi.advanceTimersByTime(60_000);
    expect(lines).toEqual(['SUSPENDED']);
  });
});

describe('before the first connection, the log', () => {
  it('has a line for each failed attempt that another one follows; after ten, one in 5 seconds', () => {
    const { lines, fail } = logged(logFailedConnects);
    fail('zk1:2181: no connection (ECONNREFUSED)', 412.4, 3);
    fail('of another client', 100, 1, {} as ZkClient);
    fail('the last one', undefined, 11);
    expect(lines).toEqual([
      'attempt 3 to connect failed: zk1:2181: no connection (ECONNREFUSED); attempt 4 follows in 412 ms',
    ]);
    for (let attempt = 4; attempt < 30; attempt++) {
      vi.advanceTimersByTime(1000);
      fail('none', 1000, attempt);
    }
    const attempts = lines.slice(1).map((line) => Number(/\d+/.exec(line)![0]));
    expect(attempts).toEqual([4, 5, 6, 7, 8, 9, 10, 15, 20, 25]);
  });
});
