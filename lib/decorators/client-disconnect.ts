import type { ExecutionContext } from '@nestjs/common';

/** A response or a socket. */
interface Closable {
  readonly destroyed?: boolean;
  once(event: 'close', listener: () => void): unknown;
}

/** One event listener for each: a GraphQL request calls one handler for each of its fields. */
const listenersOf = new WeakMap<Closable, Set<() => void>>();

/**
 * Calls `listener` when the client of an HTTP or GraphQL request disconnects. Nest itself only unsubscribes from a stream
 * that the handler has returned; a handler that still runs is not notified. On other transports a disconnect
 * unsubscribes from the result. Returns a function that removes the listener.
 */
export function onClientDisconnect(context: ExecutionContext, listener: () => void): () => void {
  const closables = closablesOf(context);
  const remove = () => closables.forEach((closable) => listenersOf.get(closable)?.delete(onClose));
  const onClose = () => {
    remove();
    listener();
  };
  for (const closable of closables) addListener(closable, onClose);
  if (closables.some(({ destroyed }) => destroyed)) onClose();
  return remove;
}

function addListener(closable: Closable, listener: () => void): void {
  let listeners = listenersOf.get(closable);
  if (!listeners) {
    const added = (listeners = new Set<() => void>());
    closable.once('close', () => added.forEach((each) => each()));
    listenersOf.set(closable, added);
  }
  listeners.add(listener);
}

/**
 * Returns Node's response object inside the framework's, or the socket if GraphQL's context has only that; and the socket of
 * its request, because the response to a pipelined request has no socket yet, and so no `close`.
 */
function closablesOf(context: ExecutionContext): Closable[] {
  const response = frameworkResponse(context);
  const raw = property(response, 'raw') ?? response;
  return [raw, property(property(raw, 'req'), 'socket')].filter(isClosable);
}

function isClosable(value: unknown): value is Closable {
  return typeof property(value, 'once') === 'function';
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
