import { channel, type Channel } from 'node:diagnostics_channel';

/** A channel of `node:diagnostics_channel` with a message type. */
export interface TypedChannel<Message> extends Pick<Channel<unknown, Message>, 'hasSubscribers'> {
  publish(message: Message): void;
  subscribe(listener: (message: Message) => void): void;
  unsubscribe(listener: (message: Message) => void): void;
}

/** The name of the channel of connection messages. */
export const CONNECTION_CHANNEL = 'nestjs-zookeeper:connection';

/** The name of the channel of deletes that a server refused. */
export const DELETE_REFUSED_CHANNEL = 'nestjs-zookeeper:delete-refused';

/** The name of the channel of failed attempts to connect. */
export const CONNECT_FAILED_CHANNEL = 'nestjs-zookeeper:connect-failed';

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
