import type { RunEvent } from '../../live/events.js';
import type { LeaseModel, LogKind, LogLine, RunModel } from './run-model.js';

/** Returns the line of an event that a reader of the log must know; `model` contains the event. */
export function logLineOf(event: RunEvent, model: RunModel): LogLine | undefined {
  const { id, at } = event;
  const line = (kind: LogKind, more: Partial<LogLine> = {}): LogLine => ({ id, at, kind, ...more });
  switch (event.type) {
    case 'sale-started':
      return line('sale-started', { sale: event.sale, mode: event.mode });
    case 'sale-ended': {
      const { sale, failure } = event;
      const { mode } = model.sales.get(sale) ?? {};
      return line(failure ? 'sale-failed' : 'sale-ended', { sale, mode, reason: failure });
    }
    case 'fault':
    case 'fault-ended': {
      // A killed instance reports that it died.
      if (event.fault === 'kill') return undefined;
      return line(event.type, { instance: event.instance, fault: event.fault });
    }
    case 'died':
    case 'started':
    case 'leader':
      return line(event.type, { instance: event.instance });
    case 'connection': {
      const kind = CONNECTION_LINES[event.state];
      return kind && line(kind, { instance: event.instance });
    }
    case 'ensemble':
      if (event.answers && model.silences.length === 0) return undefined;
      return line(event.answers ? 'ensemble-answers' : 'ensemble-silent');
    case 'lost': {
      const token = leaseOf(model, event)?.token;
      return line('lease-lost', { instance: event.instance, sale: event.sale, token });
    }
    case 'not-granted': {
      const { instance, sale, reason } = event;
      return line('not-granted', { instance, sale, reason, count: 1 });
    }
    case 'granted': {
      const from = interruptedBefore(model, event);
      if (from === undefined || from === event.instance) return undefined;
      return line('moved-on', { instance: event.instance, sale: event.sale, from });
    }
    case 'write-refused': {
      const { instance, sale, token } = event;
      return line('write-refused', { instance, sale, token });
    }
    default:
      return undefined;
  }
}

const CONNECTION_LINES: Record<string, LogKind | undefined> = {
  SUSPENDED: 'suspended',
  LOST: 'session-lost',
  RECONNECTED: 'connected',
};

const leaseOf = (model: RunModel, { sale, lease }: { sale?: number; lease: string }) =>
  sale === undefined ? undefined : model.sales.get(sale)?.leases.get(lease);

/**
 * The instance of the lease before this grant, if that instance cannot have released it. A release may be reported after
 * the next grant, so a lease without a report of its end was not interrupted for that alone.
 */
function interruptedBefore(
  model: RunModel,
  event: { sale?: number; lease: string; at: number },
): number | undefined {
  const granted = leaseOf(model, event);
  if (!granted) return undefined;
  let before: LeaseModel | undefined;
  for (const lease of model.sales.get(event.sale!)!.leases.values()) {
    if (lease === granted || lease.grantedAt === undefined || lease.grantedAt > event.at) continue;
    if (!before || lease.grantedAt > before.grantedAt!) before = lease;
  }
  if (!before || before.outcome === 'released') return undefined;
  const { bands = [] } = model.instances.get(before.instance) ?? {};
  const isInterrupted = before.outcome === 'lost' || bands.some(({ until }) => until === undefined);
  return isInterrupted ? before.instance : undefined;
}
