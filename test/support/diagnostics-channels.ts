import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { DiagnosticsMessages } from 'nestjs-zookeeper/recipes';
import { afterEach } from 'vitest';

type Messages = {
  [
    C in keyof DiagnosticsMessages as C extends `nestjs-zookeeper:${infer Name}` ? Name : never
  ]: DiagnosticsMessages[C];
};

/** Subscribes to diagnostics channels until the end of the test. */
export function useChannels() {
  const stops: (() => void)[] = [];
  afterEach(() => stops.splice(0).forEach((stop) => stop()));

  const listen = <C extends keyof Messages>(
    channel: C,
    listener: (message: Messages[C]) => void,
  ): void => {
    const name = `nestjs-zookeeper:${channel}`;
    const onMessage = (message: unknown) => listener(message as Messages[C]);
    subscribe(name, onMessage);
    stops.push(() => unsubscribe(name, onMessage));
  };

  return {
    listen,
    /** Records messages about waits and holds, one line each, in order. */
    events: (): string[] => {
      const lines: string[] = [];
      listen('wait', (message) => {
        const kind = message.event === 'granted' ? ` ${message.kind}` : '';
        lines.push(`wait ${message.event}${kind}`);
      });
      listen('hold', ({ event }) => lines.push(`hold ${event}`));
      return lines;
    },
    messages: <C extends keyof Messages>(channel: C): Messages[C][] => {
      const messages: Messages[C][] = [];
      listen(channel, (message) => messages.push(message));
      return messages;
    },
  };
}
