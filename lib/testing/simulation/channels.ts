import { channel, type Channel, type ChannelListener } from 'node:diagnostics_channel';
import type { SimulatedProcess } from './process.js';

interface Subscription {
  readonly channel: Channel;
  readonly process: SimulatedProcess;
  readonly listener: ChannelListener;
  /** What Node calls instead of the listener. */
  readonly filter: ChannelListener;
}

/**
 * Keeps the subscribers of `node:diagnostics_channel` of the processes apart. A process hears only what its own code
 * publishes, and nothing after it has crashed. The scenario hears all processes.
 *
 * @param current returns the process whose code is running
 * @param isScenario whether a process is the one that the scenario runs in
 * @returns a function that removes all subscribers of the simulation
 */
export function separateChannels(
  current: () => SimulatedProcess,
  isScenario: (process: SimulatedProcess) => boolean,
): () => void {
  const subscriptions: Subscription[] = [];
  const filters = new WeakSet<ChannelListener>();
  const restore = channelPrototypes().map((prototype) => {
    const { subscribe, unsubscribe } = prototype;
    prototype.subscribe = function (listener) {
      // A channel without subscribers changes its class and calls this method again.
      const isFilter = typeof listener !== 'function' || filters.has(listener);
      if (isFilter) return subscribe.call(this, listener);
      const process = current();
      const filter: ChannelListener = (message, name) => {
        if (process.crashed || (process !== current() && !isScenario(process))) return;
        listener(message, name);
      };
      filters.add(filter);
      subscriptions.push({ channel: this, process, listener, filter });
      subscribe.call(this, filter);
    };
    prototype.unsubscribe = function (listener) {
      const process = current();
      const index = subscriptions.findIndex(
        (each) => each.channel === this && each.process === process && each.listener === listener,
      );
      if (index < 0) return unsubscribe.call(this, listener);
      const [{ filter }] = subscriptions.splice(index, 1) as [Subscription];
      return unsubscribe.call(this, filter);
    };
    return () => Object.assign(prototype, { subscribe, unsubscribe });
  });
  return () => {
    for (const undo of restore) undo();
    for (const { channel, filter } of subscriptions) channel.unsubscribe(filter);
  };
}

/** Returns the prototypes of channels without and with subscribers, which Node implements as two classes. */
function channelPrototypes(): Channel[] {
  const probe = channel(Symbol('nestjs-zookeeper:simulation'));
  const prototype = () => Object.getPrototypeOf(probe) as Channel;
  const inactive = prototype();
  const listener = () => {};
  probe.subscribe(listener);
  const active = prototype();
  probe.unsubscribe(listener);
  return [inactive, active];
}
