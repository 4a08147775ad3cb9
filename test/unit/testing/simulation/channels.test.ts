import { channel, subscribe, unsubscribe } from 'node:diagnostics_channel';
import { simulate } from 'nestjs-zookeeper/testing';
import { expect, it } from 'vitest';

const NAME = 'test:simulation';

it('passes the messages of a process to its own subscribers and to those of the scenario', async () => {
  const received: string[] = [];
  const { value: all } = await simulate({ seed: 1 }, async (world) => {
    const scenario: unknown[] = [];
    subscribe(NAME, (message) => scenario.push(message));
    const processes = ['a', 'b'].map((name) => world.process(name));
    for (const process of processes) {
      await process.run(() =>
        channel(NAME).subscribe((message) => received.push(`${process.name} received ${message}`)),
      );
    }
    for (const process of processes) {
      await process.run(() => channel(NAME).publish(process.name));
    }
    return scenario;
  });
  expect(all).toEqual(['a', 'b']);
  expect(received).toEqual(['a received a', 'b received b']);
});

it('passes no message to a subscriber that has unsubscribed', async () => {
  await simulate({ seed: 1 }, async (world) => {
    const process = world.process('a');
    const received: unknown[] = [];
    const listener = (message: unknown) => received.push(message);
    await process.run(() => {
      subscribe(NAME, listener);
      channel(NAME).publish(1);
      expect(unsubscribe(NAME, listener)).toBe(true);
      expect(unsubscribe(NAME, listener)).toBe(false);
      channel(NAME).publish(2);
    });
    expect(received).toEqual([1]);
  });
});

it('removes the subscribers of crashed processes when the simulation ends, and keeps earlier ones', async () => {
  const earlier: unknown[] = [];
  const listener = (message: unknown) => earlier.push(message);
  subscribe(NAME, listener);
  await simulate({ seed: 1 }, async (world) => {
    const process = world.process('a');
    await process.run(() => subscribe(NAME, () => expect.unreachable()));
    process.crash();
    channel(NAME).publish(1);
  });
  channel(NAME).publish(2);
  expect(unsubscribe(NAME, listener)).toBe(true);
  expect(earlier).toEqual([1, 2]);
  expect(channel(NAME).hasSubscribers).toBe(false);
});
