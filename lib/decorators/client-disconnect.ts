import type { ExecutionContext } from '@nestjs/common';

interface ClosableResponse {
  readonly destroyed?: boolean;
  once(event: 'close', listener: () => void): unknown;
}

/** One event listener per connection: a GraphQL request calls one handler for each of its fields. */
const listenersByResponse = new WeakMap<ClosableResponse, Set<() => void>>();

/**
 * Calls `listener` when the client of an HTTP or GraphQL request disconnects. Nest itself only unsubscribes from a stream
 * that the handler has returned; a handler that still runs is not notified. On other transports a disconnect
 * unsubscribes from the result. Returns a function that removes the listener.
 */
export function onClientDisconnect(context: ExecutionContext, listener: () => void): () => void {
  const response = nodeResponse(context);
  if (!response) return () => {};
  if (response.destroyed) listener();
  const listeners = listenersOf(response);
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

function listenersOf(response: ClosableResponse): Set<() => void> {
  let listeners = listenersByResponse.get(response);
  if (!listeners) {
    const added = new Set<() => void>();
    response.once('close', () => added.forEach((listener) => listener()));
    listenersByResponse.set(response, (listeners = added));
  }
  return listeners;
}

/** Returns Node's response object inside the framework's, or the socket if GraphQL's context has only that. */
function nodeResponse(context: ExecutionContext): ClosableResponse | undefined {
  const response = frameworkResponse(context);
  const raw = property(response, 'raw') ?? response;
  return typeof property(raw, 'once') === 'function' ? (raw as ClosableResponse) : undefined;
}

function frameworkResponse(context: ExecutionContext): unknown {
  switch (context.getType<string>()) {
    case 'http':
      return context.switchToHttp().getResponse();
    case 'graphql': {
      const graphqlContext = context.getArgByIndex<unknown>(2);
      const request = property(graphqlContext, 'req');
      return (
        property(graphqlContext, 'res') ??
        // Mercurius.
        property(graphqlContext, 'reply') ??
        property(request, 'res') ??
        // Apollo on Fastify passes only the request.
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
