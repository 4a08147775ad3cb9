import type { ExecutionContext } from '@nestjs/common';

interface ClosingResponse {
  readonly destroyed?: boolean;
  once(event: 'close', listener: () => void): unknown;
  off(event: 'close', listener: () => void): unknown;
}

/**
 * Calls `listener` when the connection of an HTTP request closes. Nest ends a handler's stream then,
 * but not the call of a handler that has not answered yet. The other transports unsubscribe. Returns
 * what stops listening.
 */
export function onCallerLeft(context: ExecutionContext, listener: () => void): () => void {
  const response = responseOf(context);
  if (!response) return () => {};
  if (response.destroyed) listener();
  else response.once('close', listener);
  return () => response.off('close', listener);
}

/** Node's response below Express's, Fastify's or that of GraphQL's context. */
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
      return property(shared, 'res') ?? property(property(shared, 'req'), 'res');
    }
    default:
      return undefined;
  }
}

function property(of: unknown, name: string): unknown {
  return typeof of === 'object' && of !== null ? (of as Record<string, unknown>)[name] : undefined;
}
