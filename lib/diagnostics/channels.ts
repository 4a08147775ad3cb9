import { channel, type Channel } from 'node:diagnostics_channel';
import type { ConnectionMessage, HoldMessage, LeaderMessage, WaitMessage } from './messages.js';

export const waits = typed<WaitMessage>('nestjs-zookeeper:wait');
export const holds = typed<HoldMessage>('nestjs-zookeeper:hold');
export const connections = typed<ConnectionMessage>('nestjs-zookeeper:connection');
export const leaders = typed<LeaderMessage>('nestjs-zookeeper:leader');

/** A channel whose messages are known. */
interface TypedChannel<Message> extends Pick<Channel<unknown, Message>, 'hasSubscribers'> {
  publish(message: Message): void;
  subscribe(listener: (message: Message) => void): void;
  unsubscribe(listener: (message: Message) => void): void;
}

function typed<Message>(name: string): TypedChannel<Message> {
  return channel(name) as unknown as TypedChannel<Message>;
}

/** Listens until the function that it returns is called. */
export function listen<Message>(
  channel: TypedChannel<Message>,
  listener: (message: Message) => void,
): () => void {
  channel.subscribe(listener);
  return () => channel.unsubscribe(listener);
}
