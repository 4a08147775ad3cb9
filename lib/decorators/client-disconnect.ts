import type { ExecutionContext } from '@nestjs/common';

interface ClosingResponse {
  readonly destroyed?: boolean;
  once(event: 'close', listener: () => void): unknown;
}

/** One listener a connection: a GraphQL request calls as many handlers as it has fields. */
const listening = new WeakMap<ClosingResponse, Set<() => void>>();

/**
 * Calls `listener` when the connection of an HTTP request closes. Nest ends a handler's stream then,
 * but not the call of a handler that has not answered yet. The other transports unsubscribe. Returns
 * what stops listening.
 */
export function onCallerLeft(context: ExecutionContext, listener: () => void): () => void {
  const response = responseOf(context);
  if (!response) return () => {};
  if (response.destroyed) listener();
  const listeners = listenersOf(response);
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

function listenersOf(response: ClosingResponse): Set<() => void> {
  let listeners = listening.get(response);
  if (!listeners) {
    const added = new Set<() => void>();
    response.once('close', () => added.forEach((listener) => listener()));
    listening.set(response, (listeners = added));
  }
  return listeners;
}

/** Node's response below Express's, Fastify's or that of GraphQL's context; there, at least the connection. */
function responseOf(context: ExecutionContext): ClosingResponse | undefined {
  const response = frameworksResponse(context);
  const raw = property(response, 'raw') ?? response;
  return typeof property(raw, 'once') === 'function' ? (raw as ClosingResponse) : undefined;
}

function frameworksResponse(context: ExecutionContext): unknown {
  switch (context.getType<string>()) {
    case 'http':
      return context.switchToHttp().getResponse();
    case 'graphql': {
      const shared = context.getArgByIndex<unknown>(2);
      const request = property(shared, 'req');
      return (
        property(shared, 'res') ??
        // Mercurius's.
        property(shared, 'reply') ??
        property(request, 'res') ??
        // Apollo on Fastify tells of the request alone.
        property(property(request, 'raw'), 'socket')
      );
    }
    default:
      return undefined;
  }
}

function property(of: unknown, name: string): unknown {
  return typeof of === 'object' && of !== null ? (of as Record<string, unknown>)[name] : undefined;
}
