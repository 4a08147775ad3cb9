import { ExecutionContextHost } from '@nestjs/core/helpers/execution-context-host.js';
import {
  BadKeyError,
  DistributedLock,
  type LockOptions,
  type LockService,
  WaitCancelledError,
} from 'nestjs-zookeeper';
import { type Entry } from 'nestjs-zookeeper/recipes';
import { Observable } from 'rxjs';
import { beforeEach, describe, expect, it } from 'vitest';
import { HandlerCall } from '../../../lib/decorators/handler-call.js';
import { requirementsOf } from '../../../lib/decorators/requirement.js';
import { Gate } from '../../support/gate.js';

/** A lock service that grants every lock and records what happens to it. */
class Locks {
  readonly log: string[] = [];
  readonly defaultWait = Infinity;
  /** Resolves when the lock may be granted. */
  granting: Promise<void> = Promise.resolve();

  async enter(key: string, { signal }: LockOptions): Promise<Entry> {
    this.log.push(`take ${key}`);
    await this.granting;
    if (signal?.aborted) throw new WaitCancelledError('the wait was cancelled');
    this.log.push(`hold ${key}`);
    const lease = { key, held: true, signal: new AbortController().signal };
    return {
      lease: lease as Entry['lease'],
      run: (fn) => fn(),
      release: async () => {
        lease.held = false;
        this.log.push(`release ${key}`);
      },
    };
  }
}

class Handlers {
  body: () => unknown = () => {};

  @DistributedLock('fixed')
  async fixed(): Promise<unknown> {
    return this.body();
  }

  @DistributedLock((id) => id)
  async argument(_id: string): Promise<unknown> {
    return this.body();
  }

  @DistributedLock('outer')
  @DistributedLock((id) => id)
  @DistributedLock('inner')
  async three(_id: string): Promise<unknown> {
    return this.body();
  }
}

let locks: Locks;
let handlers: Handlers;
beforeEach(() => {
  locks = new Locks();
  handlers = new Handlers();
});

function callOf(method: keyof Omit<Handlers, 'body'>): HandlerCall {
  const specs = requirementsOf(Handlers.prototype[method]);
  const context = new ExecutionContextHost([{}]);
  return new HandlerCall(specs, context, () => locks as unknown as LockService);
}

describe('the call of a locked handler', () => {
  it('acquires a fixed key at once, and a key from arguments together with the method', async () => {
    const call = callOf('three');
    await call.open();
    expect(locks.log).toEqual(['take outer', 'hold outer']);
    handlers.body = () => locks.log.push('run');
    await call.runWithin(() => handlers.three('7'));
    await call.close(false);
    await call.close(false);
    expect(locks.log.slice(2)).toEqual([
      'take 7',
      'hold 7',
      'take inner',
      'hold inner',
      'run',
      'release outer',
      'release 7',
      'release inner',
    ]);
  });

  it('keeps its leases while the method runs, although the client has disconnected', async () => {
    const call = callOf('fixed');
    const running = new Gate();
    await call.open();
    handlers.body = () => running.opened;
    const answer = call.runWithin(() => handlers.fixed());
    await call.close(false);
    expect(locks.log).toEqual(['take fixed', 'hold fixed']);
    running.open();
    await answer;
    expect(locks.log).toEqual(['take fixed', 'hold fixed', 'release fixed']);
  });

  it('does not run the method if the client disconnects before the grant', async () => {
    const call = callOf('fixed');
    await call.open();
    let ran = false;
    handlers.body = () => (ran = true);
    await call.close(false);
    expect(locks.log).toContain('release fixed');
    await expect(call.runWithin(() => handlers.fixed())).rejects.toThrow(WaitCancelledError);
    expect(ran).toBe(false);
  });

  it('releases a lock that is granted after the client has disconnected', async () => {
    const call = callOf('argument');
    const granting = new Gate();
    locks.granting = granting.opened;
    // Too late to cancel the wait: the grant is on its way.
    locks.enter = async function (this: Locks, key) {
      await granting.opened;
      return Locks.prototype.enter.call(this, key, {});
    };
    const answer = call.runWithin(() => handlers.argument('7'));
    await call.close(false);
    granting.open();
    await expect(answer).rejects.toThrow(WaitCancelledError);
    expect(locks.log).toEqual(['take 7', 'hold 7', 'release 7']);
  });

  it('cancels the wait when the client disconnects', async () => {
    const call = callOf('fixed');
    const granting = new Gate();
    locks.granting = granting.opened;
    const opened = call.open();
    await call.close(false);
    granting.open();
    await expect(opened).rejects.toThrow(WaitCancelledError);
    expect(locks.log).toEqual(['take fixed']);
  });

  it('distinguishes its own errors from those of the method', async () => {
    const call = callOf('argument');
    const raised: unknown = await call
      .runWithin(() => handlers.argument(''))
      .catch((e: unknown) => e);
    expect(raised).toBeInstanceOf(BadKeyError);
    expect(call.sourceOf(raised)?.label).toBe('Handlers.argument');

    const other = callOf('argument');
    other.cancelWaits();
    const cancelled: unknown = await other
      .runWithin(() => handlers.argument('7'))
      .catch((e: unknown) => e);
    expect(other.sourceOf(cancelled)?.label).toBe('Handlers.argument');
    expect(other.sourceOf(new WaitCancelledError('of the method'))).toBeUndefined();
  });

  it('leaves the end of a stream to the interceptor', async () => {
    const call = callOf('fixed');
    await call.open();
    handlers.body = () => new Observable(() => {});
    expect(await call.runWithin(() => handlers.fixed())).toBeInstanceOf(Observable);
    expect(locks.log).not.toContain('release fixed');
    await call.close(false);
    expect(locks.log).toContain('release fixed');
  });
});
