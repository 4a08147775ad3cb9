import {
  LeaseLostError,
  LockBusyError,
  type Lock,
  Mutex,
  type Term,
  ZkClient,
} from 'nestjs-zookeeper/recipes';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { connections, publishConnection } from '../../../lib/client/zk-client.js';
import {
  holds,
  leaders,
  publishWait,
  publishElected,
  publishReentry,
  publishTermOver,
  waits,
} from '../../../lib/kernel/diagnostics.js';
import type { Candidate } from '../../../lib/recipes/candidate.js';
import { Grant } from '../../../lib/kernel/grant.js';
import type { Ownership } from '../../../lib/kernel/ownership.js';
import { useChannels } from '../../support/diagnostics-channels.js';

const channels = useChannels();
afterEach(() => vi.restoreAllMocks());

const client = new ZkClient({ connectString: '127.0.0.1:1' });
const lock: Lock = new Mutex(client, '/lock');
const newGrant = () => new Grant({ returned: async () => {} } as unknown as Ownership, 7n, 'cold');
const tellAll = () => {
  publishReentry(lock);
  publishConnection(client, { state: 'CONNECTED', sessionId: undefined });
  publishElected({} as Candidate, {} as Term);
  publishTermOver({} as Candidate, { signal: AbortSignal.abort({}) } as Term);
};

describe('a channel without subscribers', () => {
  it('costs no message, no promise and no reading of the clock', async () => {
    const clock = vi.spyOn(performance, 'now');
    const publish = [waits, holds, connections, leaders].map((channel) =>
      vi.spyOn(channel, 'publish'),
    );
    const grant = newGrant();
    const taking = Promise.resolve(grant);
    expect(publishWait(lock, () => taking)).toBe(taking);
    await taking;
    tellAll();
    grant.lease('key');
    grant.end('released');
    expect(grant.onEnd).toBeUndefined();
    expect(clock).not.toHaveBeenCalled();
    for (const published of publish) expect(published).not.toHaveBeenCalled();
  });

  it('costs nothing again when the last subscriber has left', () => {
    const stop = () => {};
    waits.subscribe(stop);
    const taking = Promise.resolve(newGrant());
    expect(publishWait(lock, () => taking)).not.toBe(taking);
    waits.unsubscribe(stop);
    expect(publishWait(lock, () => taking)).toBe(taking);
  });
});

describe('a published message', () => {
  it('goes to its own channel only', () => {
    const messages = [
      channels.messages('wait'),
      channels.messages('connection'),
      channels.messages('leader'),
    ];
    tellAll();
    expect(messages.map((of) => of.length)).toEqual([1, 1, 2]);
  });

  it('reports the end of a hold once, although the grant was lost before the wait was over', async () => {
    const events = channels.events();
    const grant = newGrant();
    await publishWait(lock, async () => {
      grant.end('lost', new LeaseLostError('gone'));
      return grant;
    });
    grant.end('released');
    expect(events).toEqual(['wait began', 'wait granted cold', 'hold began', 'hold lost']);
  });

  it('contains the error of a failed wait unchanged', async () => {
    const messages = channels.messages('wait');
    for (const error of [new LockBusyError('taken'), new Error('unknown'), 'text', undefined]) {
      await expect(publishWait(lock, () => Promise.reject(error))).rejects.toBe(error);
      expect(messages.at(-1)).toMatchObject({ error });
    }
    const ends = messages.map(({ event }) => event).filter((event) => event !== 'began');
    expect(ends).toEqual(['busy', 'failed', 'failed', 'failed']);
  });
});
