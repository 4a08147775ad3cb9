import { channel, type Channel, type ChannelListener } from 'node:diagnostics_channel';
import type { SimulatedProcess } from './process.js';

interface Subscription {
  readonly channel: Channel;
  readonly process: SimulatedProcess;
  readonly listener: ChannelListener;
  /** The listener that Node calls. It calls `listener` for the messages of its own process. */
  readonly filter: ChannelListener;
}

/**
 * Separates the subscribers of `node:diagnostics_channel` of the processes. A subscriber receives only the messages
 * that its own process publishes, and no messages after a crash of this process. Subscribers of the scenario receive
 * the messages of all processes.
 *
 * @param current returns the process whose code is running
 * @param isScenario returns whether a process is the process in which the scenario runs
 * @returns a function that removes all subscribers of the simulation
 */
export function separateChannels(
  current: () => SimulatedProcess,
  isScenario: (process: SimulatedProcess) => boolean,
): () => void {
  const subscriptions: Subscription[] = [];
  const filters = new WeakSet<ChannelListener>();
  const restoreFunctions = channelPrototypes().map((prototype) => {
    const { subscribe, unsubscribe } = prototype;
    prototype.subscribe = function (listener) {
      // For a channel without subscribers, Node changes the class of the channel and calls this method again.
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
    for (const restore of restoreFunctions) restore();
    for (const { channel, filter } of subscriptions) channel.unsubscribe(filter);
  };
}

/** Returns the prototypes of the two classes of channels in Node: without and with subscribers. */
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
