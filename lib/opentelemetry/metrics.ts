import type { Meter, ObservableResult } from '@opentelemetry/api';
import type { ConnectionState, ZkClient } from '../client/index.js';
import {
  CONNECTION_CHANNEL,
  DELETE_REFUSED_CHANNEL,
  listen,
  typedChannel,
} from '../client/diagnostics.js';
import type { ConnectionMessage } from '../client/zk-client.js';
import {
  type HoldMessage,
  holds,
  leaders,
  type Wait,
  type WaitMessage,
  waits,
} from '../kernel/diagnostics.js';
import {
  CONNECTION_STATE,
  ELECTION,
  GRANT_KIND,
  HOLD_END,
  LEADER_CHANGE,
  RECIPE,
  WAIT_OUTCOME,
} from './spans.js';

/** Seconds: from a handover within the process to a wait that needs attention. */
const BOUNDARIES = [0.0001, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300];

/** Records metrics of all locks, elections and connections, until the returned function is called. */
export function measure(meter: Meter): () => void {
  const stops = [measureWaits(meter), measureHolds(meter), countConnections(meter)];
  const changes = meter.createCounter('zookeeper.leader.changes', {
    description: 'Terms of this process that began or ended',
    unit: '{change}',
  });
  const refusals = meter.createCounter('zookeeper.delete.refusals', {
    description: 'Nodes of locks and elections that a server refused to delete',
    unit: '{refusal}',
  });
  stops.push(
    listen(leaders, ({ event, term }) =>
      changes.add(1, { [ELECTION]: term.election, [LEADER_CHANGE]: event }),
    ),
    listen(typedChannel(DELETE_REFUSED_CHANNEL), () => refusals.add(1)),
  );
  return () => stops.forEach((stop) => stop());
}

function measureWaits(meter: Meter): () => void {
  const waiting = new Set<Wait>();
  const duration = meter.createHistogram('zookeeper.lock.wait.duration', {
    description: 'Duration of waits, by their outcome',
    unit: 's',
    advice: { explicitBucketBoundaries: BOUNDARIES },
  });
  const grants = meter.createCounter('zookeeper.lock.grants', {
    description: 'Grants, by kind',
    unit: '{grant}',
  });
  const timeouts = meter.createCounter('zookeeper.lock.timeouts', {
    description: 'Waits that ended at their deadline',
    unit: '{timeout}',
  });
  const waiters = meter.createObservableUpDownCounter('zookeeper.lock.waiters', {
    description: 'Callers that are waiting',
    unit: '{waiter}',
  });
  const observe = (result: ObservableResult) => {
    const counts = new Map<string, number>();
    for (const { lock } of waiting) counts.set(lock.recipe, (counts.get(lock.recipe) ?? 0) + 1);
    for (const recipe of seen) result.observe(counts.get(recipe) ?? 0, { [RECIPE]: recipe });
  };
  /** Recipes with an earlier wait: they report 0 when nobody waits. */
  const seen = new Set<string>();

  const onWait = (message: WaitMessage) => {
    const { event, wait } = message;
    const { recipe } = wait.lock;
    if (event === 'began') {
      seen.add(recipe);
      waiting.add(wait);
      return;
    }
    if (event === 'granted') grants.add(1, { [RECIPE]: recipe, [GRANT_KIND]: message.kind });
    if (event === 'timed-out') timeouts.add(1, { [RECIPE]: recipe });
    // A re-entry has no beginning, nor has a wait that began before the instrumentation was enabled.
    if (!waiting.delete(wait)) return;
    duration.record(message.duration / 1000, { [RECIPE]: recipe, [WAIT_OUTCOME]: event });
  };

  waiters.addCallback(observe);
  const stop = listen(waits, onWait);
  return () => {
    stop();
    waiters.removeCallback(observe);
  };
}

function measureHolds(meter: Meter): () => void {
  const duration = meter.createHistogram('zookeeper.lock.hold.duration', {
    description: 'Duration of holds, by their end',
    unit: 's',
    advice: { explicitBucketBoundaries: BOUNDARIES },
  });
  const losses = meter.createCounter('zookeeper.lock.losses', {
    description: 'Grants that were lost before they were released',
    unit: '{loss}',
  });
  return listen(holds, (message: HoldMessage) => {
    const { event, hold } = message;
    if (event === 'began') return;
    const { recipe } = hold.lock;
    duration.record(message.duration / 1000, { [RECIPE]: recipe, [HOLD_END]: event });
    if (event === 'lost') losses.add(1, { [RECIPE]: recipe });
  });
}

/** Counts the clients of this process by their state, without closed ones. */
function countConnections(meter: Meter): () => void {
  const states = new Map<ZkClient, ConnectionState>();
  const seen = new Set<ConnectionState>();
  const count = meter.createObservableUpDownCounter('zookeeper.connection.count', {
    description: 'Connections to an ensemble, by state',
    unit: '{connection}',
  });
  const observe = (result: ObservableResult) => {
    const present = [...states.values()];
    for (const state of seen) {
      const those = present.filter((other) => other === state);
      result.observe(those.length, { [CONNECTION_STATE]: state });
    }
  };
  count.addCallback(observe);
  const stop = listen(typedChannel<ConnectionMessage>(CONNECTION_CHANNEL), ({ client, state }) => {
    if (state === 'CLOSED') return void states.delete(client);
    seen.add(state);
    states.set(client, state);
  });
  return () => {
    stop();
    count.removeCallback(observe);
  };
}
