import { AsyncLocalStorage, createHook } from 'node:async_hooks';
import { once } from 'node:events';
import { syncBuiltinESMExports } from 'node:module';
import os from 'node:os';
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { SessionExpiredError } from '../../../lib/client/errors.js';
import { HostProvider } from '../../../lib/client/hosts.js';
import { Listeners } from '../../../lib/client/listeners.js';
import { normalizeOptions } from '../../../lib/client/options.js';
import { Session } from '../../../lib/client/session.js';
import {
  instant,
  isAnswer,
  SessionDeadline,
  type Instant,
} from '../../../lib/client/session-deadline.js';
import type { Transport } from '../../../lib/client/transport/transport.js';
import { replyError } from '../../../lib/client/reply-errors.js';
import { WatchRegistry } from '../../../lib/client/watch-registry.js';

describe('the session deadline', () => {
  beforeEach(() => at({ monotonic: 0, wall: 0 }));
  afterEach(() => {
    vi.restoreAllMocks();
    syncBuiltinESMExports();
  });

  /** @param asleep milliseconds for which the machine has been asleep, by the clock of the operating system */
  const at = (now: Instant, asleep = 0) => {
    vi.spyOn(performance, 'now').mockReturnValue(now.monotonic);
    vi.spyOn(Date, 'now').mockReturnValue(now.wall);
    vi.spyOn(os, 'uptime').mockReturnValue(1000 + (now.monotonic + asleep) / 1000);
    syncBuiltinESMExports();
  };

  /** Returns the deadline of a session with a timeout of 1,000 ms, whose first request was sent at that instant. */
  const deadlineFrom = (sentAt: Instant = { monotonic: 0, wall: 0 }) => {
    const deadline = new SessionDeadline(sentAt);
    deadline.setSessionTimeout(1000);
    return deadline;
  };

  test('passes three quarters of the timeout after the latest answered request was sent', () => {
    const deadline = deadlineFrom();
    at({ monotonic: 500, wall: 500 });
    deadline.extend({ monotonic: 400, wall: 400 });
    expect(deadline.left).toBe(650);
    // The reply to an older request.
    deadline.extend({ monotonic: 200, wall: 200 });
    expect(deadline.left).toBe(650);
    at({ monotonic: 1150, wall: 1150 });
    expect(deadline.left).toBe(0);
  });

  test('counts from when an answered request was sent, not from its reply', () => {
    const deadline = deadlineFrom();
    const reply = deadline.extendedBy<void>(() => {});
    at({ monotonic: 600, wall: 600 });
    reply(0, undefined);
    expect(deadline.left).toBe(150);
  });

  test('counts the sleep of the machine, which the monotonic clock does not count', () => {
    const deadline = deadlineFrom();
    at({ monotonic: 10, wall: 5000 }, 4990);
    expect(deadline.left).toBe(-4250);
    // Its wall clock was set back meanwhile.
    at({ monotonic: 10, wall: -3_600_000 }, 5000);
    expect(deadline.left).toBeLessThan(0);
  });

  test('does not count a sleep that ended before the session began', () => {
    at({ monotonic: 10, wall: 5000 }, 4990);
    const deadline = deadlineFrom({ monotonic: 10, wall: 5000 });
    at({ monotonic: 20, wall: 3_600_000 }, 4990);
    expect(deadline.left).toBe(740);
  });

  test('ignores a wall clock that is set forward or back', () => {
    const deadline = deadlineFrom({ monotonic: 0, wall: 100_000 });
    at({ monotonic: 10, wall: 3_600_000 });
    expect(deadline.left).toBe(740);
    at({ monotonic: 800, wall: 0 });
    expect(deadline.left).toBeLessThan(0);
  });

  test('counts the wall clock if the operating system does not report for how long the machine was asleep', () => {
    vi.spyOn(os, 'uptime').mockImplementation(() => {
      throw new Error('not permitted');
    });
    syncBuiltinESMExports();
    const deadline = deadlineFrom();
    expect(deadline.left).toBe(750);
    vi.spyOn(Date, 'now').mockReturnValue(5000);
    expect(deadline.left).toBeLessThan(0);
  });
});

test('a session has timers only until it ends', async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const observer = { attached() {}, detached() {}, ended() {}, deleteRefused() {} };
  const session = new Session(normalizeOptions({ connectString: 'zk1' }), observer);
  const transport: Partial<Transport> = {
    timeout: 1000,
    request: (_request, reply) => (reply(0, undefined as never), true),
    destroy() {},
  };
  const connection = { transport: transport as Transport, startedAt: instant() };
  await session.attach({ ...connection, serverKind: 'zookeeper' }, new AbortController().signal);
  expect(vi.getTimerCount()).toBe(2);
  session.expire(new SessionExpiredError('over'));
  expect(vi.getTimerCount()).toBe(0);
});

describe('listeners', () => {
  test('are called although an earlier one throws, which emits a process warning', async () => {
    const listeners = new Listeners<number>();
    const second = vi.fn();
    const warned = once(process, 'warning');
    listeners.add(() => {
      throw new Error('a listener failed');
    });
    listeners.add(second);
    listeners.emit(1);
    expect(second).toHaveBeenCalledWith(1);
    expect(await warned).toMatchObject([{ message: 'a listener failed' }]);
  });

  test('that are removed receive nothing, not even events that are already queued', async () => {
    const listeners = new Listeners<number>();
    const listener = vi.fn();
    listeners.add(listener)();
    listeners.soon(listener, 1)();
    listeners.emit(2);
    await Promise.resolve();
    expect(listener).not.toHaveBeenCalled();
  });

  test('leave no open handle for a test runner to report', async () => {
    const open = new Set<number>();
    const hook = createHook({
      init: (id, type) => void (type === 'ZooKeeperListener' && open.add(id)),
      destroy: (id) => void open.delete(id),
    }).enable();
    const listeners = new Listeners<number>();
    const context = new AsyncLocalStorage<string>();
    const seen: unknown[] = [];
    context.run('of the caller', () => listeners.add(() => seen.push(context.getStore())));
    expect(open.size).toBe(1);
    await vi.waitUntil(() => open.size === 0);
    hook.disable();
    listeners.emit(1);
    expect(seen).toEqual(['of the caller']);
  });
});

test('the watch registry does not remove a watch that was added after an older one fired', () => {
  const registry = new WatchRegistry(() => {});
  const old = registry.add('data', '/a', false);
  registry.fire('changed', '/a');
  registry.add('data', '/a', false);
  old.remove();
  expect(registry.size).toBe(1);
});

describe('result codes', () => {
  test.each([
    [-101, 'NO_NODE', true],
    [-102, 'NOT_AUTHORIZED', true],
    [-103, 'BAD_VERSION', true],
    [-108, 'NO_CHILDREN_FOR_EPHEMERALS', true],
    [-110, 'NODE_EXISTS', true],
    [-111, 'NOT_EMPTY', true],
    [-114, 'INVALID_ACL', true],
    [-125, 'UNEXPECTED', true],
    [-8, 'UNEXPECTED', true],
    [-6, 'UNIMPLEMENTED', true],
    [-112, 'SESSION_EXPIRED', false],
    [-115, 'NOT_AUTHORIZED', false],
    [-118, 'CONNECTION', false],
    [-4, 'CONNECTION', false],
    [-7, 'CONNECTION', false],
    [-116, 'CONNECTION', false],
  ])('%i becomes %s', (code, expected, answered) => {
    expect(replyError(code, 'get', '/a').code).toBe(expected);
    expect(isAnswer(code)).toBe(answered);
  });

  test('only a request whose reply was lost may have been applied', () => {
    expect(replyError(-4, 'create', '/a')).toMatchObject({ maybeApplied: true });
    expect(replyError(-118, 'create', '/a')).toMatchObject({ maybeApplied: false });
  });
});

test('hosts are used in a random order and then in rotation', () => {
  const hosts = ['a', 'b', 'c'].map((host) => ({ host, port: 1, label: `${host}:1` }));
  const ring = new HostProvider(hosts, () => 0);
  const order = Array.from({ length: 6 }, () => ring.next().host);
  expect(order.slice(0, 3).sort()).toEqual(['a', 'b', 'c']);
  expect(order.slice(3)).toEqual([ring.next(), ring.next(), ring.next()].map(({ host }) => host));
  expect(new HostProvider(hosts, (below) => below - 1).next().host).toBe('a');
  expect(new HostProvider(hosts, () => 0).next().host).toBe('b');
});
