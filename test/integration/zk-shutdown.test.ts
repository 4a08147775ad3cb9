import { setTimeout as delay } from 'node:timers/promises';
import { Injectable, Logger, Module } from '@nestjs/common';
import {
  DistributedLock,
  LeaderOnly,
  LeaderService,
  LeaseLostError,
  LockService,
  ShuttingDownError,
} from 'nestjs-zookeeper';
import { describe, expect, vi } from 'vitest';
import { eventually } from '../support/eventually.js';
import { Gate } from '../support/gate.js';
import { untilQueued, useApps } from '../support/nest-apps.js';
import { observed } from '../support/recipe-nodes.js';
import { useServer } from '../support/servers.js';
import { it } from '../support/virtual-time.js';

const zk = useServer();
const apps = useApps(zk);

describe('an application that shuts down', () => {
  it('rejects new acquires, but lets present holders re-enter', async () => {
    const app = await apps.start({});
    const locks = app.get(LockService);
    const gate = new Gate();
    const holding = locks.withLock('goods', () =>
      locks.withLock('stock', { mode: 'write' }, async () => {
        await gate.pass();
        await locks.withLock('stock', { mode: 'read' }, () => {});
        await expect(locks.withLock(['goods', 'new'], () => {})).rejects.toThrow(ShuttingDownError);
        return locks.withLock('goods', () => 'entered again');
      }),
    );
    await gate.reached;
    const closed = app.close();
    await eventually(() => expect(locks.acquire('other')).rejects.toThrow(ShuttingDownError));
    await expect(locks.tryAcquire('other')).rejects.toThrow(/"other" is refused.*shutting down/);
    gate.open();
    expect(await holding).toBe('entered again');
    await closed;
  });

  it('waits for held leases, then closes its session', async () => {
    const app = await apps.start({});
    const other = await apps.start({});
    const gate = new Gate();
    const events: string[] = [];
    const holding = app
      .get(LockService)
      .withLock('goods', () => gate.pass())
      .then(() => events.push('released'));
    await gate.reached;
    const closed = app.close().then(() => events.push('closed'));
    const waiting = other.get(LockService).acquire('goods');
    await untilQueued(other.client, 'goods', 2);
    gate.open();
    await Promise.all([holding, closed, app.close()]);
    expect(events).toEqual(['released', 'closed']);
    expect(app.client.state).toBe('CLOSED');
    await (await waiting).release();
  });

  it('waits for them before other modules end what their holders use, such as a pool of connections', async () => {
    const events: string[] = [];
    @Injectable()
    class Pool {
      onApplicationShutdown() {
        events.push('the pool has ended');
      }
    }
    @Module({ providers: [Pool] })
    class PoolModule {}
    const app = await apps.start({ imports: [PoolModule] });
    const gate = new Gate();
    const holding = app.get(LockService).withLock('goods', async () => {
      await gate.pass();
      await delay(1_000);
      events.push('the holder has ended');
    });
    await gate.reached;
    const closed = app.close();
    gate.open();
    await Promise.all([holding, closed]);
    expect(events).toEqual(['the holder has ended', 'the pool has ended']);
  });

  it('names the keys of the leases that it waits for, and releases them when shutdownTimeout has passed', async () => {
    const warn = vi.spyOn(Logger.prototype, 'warn').mockImplementation(() => {});
    const app = await apps.start({}, { shutdownTimeout: 5_000 });
    const other = await apps.start({});
    const lease = await app.get(LockService).acquire('goods');
    const { signal } = lease;
    const before = performance.now();
    await app.close();
    expect(Math.abs(performance.now() - before - 5_000)).toBeLessThan(100);
    expect(lease.held).toBe(false);
    expect(signal.reason).toBeInstanceOf(LeaseLostError);
    expect(signal.reason.cause).toBeInstanceOf(ShuttingDownError);
    expect(warn).toHaveBeenCalledWith(
      expect.stringMatching(/waits at most 5000 ms for 1 held lease.*: goods$/),
    );
    expect(warn).toHaveBeenCalledWith(
      expect.stringMatching(/5000 ms and releases 1 held lease.*goods/),
    );
    warn.mockRestore();
    await using _lease = await other.get(LockService).acquire('goods', { wait: 0 });
  });

  it('ends leases when shutdownTimeout has passed, also while Nest waits for its servers', async () => {
    const warn = vi.spyOn(Logger.prototype, 'warn').mockImplementation(() => {});
    const app = await apps.start({}, { shutdownTimeout: 5_000 });
    const requests = new Gate();
    vi.spyOn(app.getHttpAdapter(), 'close').mockImplementation(() => requests.pass());
    const { signal } = await app.get(LockService).acquire('goods');
    const before = performance.now();
    const closed = app.close();
    await eventually(() => expect(signal.aborted).toBe(true));
    expect(Math.abs(performance.now() - before - 5_000)).toBeLessThan(100);
    for (const text of [
      /waits at most 5000 ms for 1 .*goods$/,
      /5000 ms and releases 1 .*goods$/,
    ]) {
      expect(warn).toHaveBeenCalledWith(expect.stringMatching(text));
    }
    warn.mockRestore();
    requests.open();
    await closed;
  });

  it('does not wait for leases that are lost meanwhile', async () => {
    const warn = vi.spyOn(Logger.prototype, 'warn').mockImplementation(() => {});
    const app = await apps.start({}, { shutdownTimeout: 3_600_000 });
    const gate = new Gate();
    const options = { holdAtMost: 500 };
    const held = app.get(LockService).withLock(['goods', 'gold'], options, () => gate.pass());
    await gate.reached;
    const closed = observed(app.close());
    await expect.poll(() => closed.settled).toBe(true);
    expect(warn).not.toHaveBeenCalledWith(expect.stringMatching(/releases \d+ held lease/));
    gate.open();
    await held;
    warn.mockRestore();
  });

  it('has one timeout for everything that it waits for', async () => {
    const warn = vi.spyOn(Logger.prototype, 'warn').mockImplementation(() => {});
    const app = await apps.start({}, { shutdownTimeout: 2_000 });
    const [leading, holding] = [new Gate(), new Gate()];
    app.get(LeaderService).select('job', () => leading.pass());
    const held = app.get(LockService).withLock('goods', () => holding.pass());
    await Promise.all([leading.reached, holding.reached]);
    const began = performance.now();
    await app.close();
    expect(Math.abs(performance.now() - began - 2_000)).toBeLessThan(100);
    expect(warn).toHaveBeenCalledWith(
      expect.stringMatching(/2000 ms and releases 1 held lease.*goods/),
    );
    leading.open();
    holding.open();
    await held;
    warn.mockRestore();
  });

  it('skips @LeaderOnly methods, and rejects locked methods instead of skipping them', async () => {
    let runs = 0;
    @Injectable()
    class Jobs {
      @LeaderOnly('jobs')
      async led(): Promise<void> {
        runs++;
      }

      @DistributedLock('jobs', { wait: 60_000, onBusy: 'skip' })
      async locked(): Promise<void> {
        runs++;
      }
    }
    const app = await apps.start({ providers: [Jobs] });
    const other = await apps.start({});
    await using _lease = await other.get(LockService).acquire('jobs');
    const jobs = app.get(Jobs);
    const waiting = expect(jobs.locked()).rejects.toThrow(ShuttingDownError);
    await untilQueued(other.client, 'jobs', 2);
    await app.close();
    await waiting;
    await expect(jobs.locked()).rejects.toThrow(ShuttingDownError);
    expect(await jobs.led()).toBeUndefined();
    expect(runs).toBe(0);
  });
});
