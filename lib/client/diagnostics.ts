import { channel, type Channel } from 'node:diagnostics_channel';
import type { StateChange } from './connection-state.js';
import type { ZkClient } from './zk-client.js';

/**
 * A message on the channel `nestjs-zookeeper:connection`: the state of a client of this process has changed.
 *
 * @publicApi
 */
export interface ConnectionMessage extends StateChange {
  readonly client: ZkClient;
}

/** A channel of `node:diagnostics_channel` whose messages have a type. */
export interface TypedChannel<Message> extends Pick<Channel<unknown, Message>, 'hasSubscribers'> {
  publish(message: Message): void;
  subscribe(listener: (message: Message) => void): void;
  unsubscribe(listener: (message: Message) => void): void;
}

export const connections = typedChannel<ConnectionMessage>('nestjs-zookeeper:connection');

export function typedChannel<Message>(name: string): TypedChannel<Message> {
  return channel(name) as unknown as TypedChannel<Message>;
}

/** Subscribes to a channel. Returns a function that unsubscribes. */
export function listen<Message>(
  channel: TypedChannel<Message>,
  listener: (message: Message) => void,
): () => void {
  channel.subscribe(listener);
  return () => channel.unsubscribe(listener);
}

export function publishConnection(client: ZkClient, change: StateChange): void {
  if (connections.hasSubscribers) connections.publish({ client, ...change });
}
