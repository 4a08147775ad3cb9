import { type Attributes, type Span, SpanStatusCode, type Tracer } from '@opentelemetry/api';
import { listen } from '../client/diagnostics.js';
import { holds, waits } from '../kernel/diagnostics.js';
import type { Hold, HoldMessage, Wait, WaitMessage } from '../kernel/diagnostics.js';

// The attributes of spans and metrics. The names follow OpenTelemetry's semantic conventions, which define error.type.
// Only on spans, because the number of their values is unlimited.
const KEY = 'zookeeper.lock.key';
const PATH = 'zookeeper.lock.path';
const FENCING_TOKEN = 'zookeeper.lock.fencing_token';

export const RECIPE = 'zookeeper.lock.recipe';
export const GRANT_KIND = 'zookeeper.lock.grant.kind';
export const WAIT_OUTCOME = 'zookeeper.lock.wait.outcome';
export const HOLD_END = 'zookeeper.lock.hold.end';
export const ELECTION = 'zookeeper.election.name';
export const LEADER_CHANGE = 'zookeeper.leader.change';
export const CONNECTION_STATE = 'zookeeper.connection.state';
const ERROR_TYPE = 'error.type';

/**
 * Records a span for each wait and each hold, as children of the caller's span, until the returned function is called.
 */
export function traceLocks(tracer: Tracer): () => void {
  const spans = new WeakMap<Wait | Hold, Span>();

  /** Messages are published in the caller's async context, which contains the parent span. */
  const begin = (name: string, of: Wait | Hold, attributes: Attributes) => {
    const { key, path, recipe } = of.lock;
    const about = { [KEY]: key, [PATH]: path, [RECIPE]: recipe, ...attributes };
    spans.set(of, tracer.startSpan(name, { attributes: about }));
  };

  const onWait = (message: WaitMessage) => {
    if (message.event === 'began') return begin('zookeeper.lock.wait', message.wait, {});
    // A re-entry has no span, nor has a wait that began before the instrumentation was enabled.
    const span = spans.get(message.wait);
    if (!span) return;
    span.setAttribute(WAIT_OUTCOME, message.event);
    if (message.event === 'granted') span.setAttribute(GRANT_KIND, message.kind);
    else if (message.event === 'timed-out' || message.event === 'failed') fail(span, message.error);
    span.end();
  };

  const onHold = (message: HoldMessage) => {
    const { event, hold } = message;
    if (event === 'began') {
      const { kind, fencingToken } = hold;
      const attributes = { [GRANT_KIND]: kind, [FENCING_TOKEN]: String(fencingToken) };
      return begin('zookeeper.lock.hold', hold, attributes);
    }
    const span = spans.get(hold);
    if (!span) return;
    span.setAttribute(HOLD_END, event);
    if (event === 'lost') fail(span, message.reason);
    span.end();
  };

  const stops = [listen(waits, onWait), listen(holds, onHold)];
  return () => stops.forEach((stop) => stop());
}

function fail(span: Span, error: unknown): void {
  const exception = error instanceof Error ? error : new Error(String(error));
  const { code = '_OTHER' } = exception as { code?: string };
  span.setAttribute(ERROR_TYPE, code);
  span.recordException(exception);
  span.setStatus({ code: SpanStatusCode.ERROR, message: exception.message });
}
