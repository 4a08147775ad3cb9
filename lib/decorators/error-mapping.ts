import { type ArgumentsHost, HttpException } from '@nestjs/common';
import type { CoordinationError } from '../client/errors.js';

/**
 * What a handler is to fail with in place of a lock's error: undefined leaves it to the library, the
 * error itself leaves it to the application's exception filters.
 *
 * @publicApi
 */
export type ErrorMapping = (error: CoordinationError, host: ArgumentsHost) => unknown;

/** What the caller hears. The error's own message may name servers and znodes: it stays the cause. */
interface Answer {
  readonly status: number;
  readonly message: string;
  readonly retryAfter?: number;
}

const ANSWERS: Readonly<Record<string, Answer>> = {
  BUSY: { status: 409, message: 'Busy with other requests' },
  TIMEOUT: { status: 503, message: 'Still busy with other requests, try again', retryAfter: 1 },
  DEADLOCK: { status: 503, message: 'In conflict with other requests, try again', retryAfter: 1 },
  CONNECTION: { status: 503, message: 'The coordination service is unavailable' },
  SESSION_EXPIRED: { status: 503, message: 'The coordination service is unavailable' },
  SHUTTING_DOWN: { status: 503, message: 'Shutting down' },
  NOT_LEADER: { status: 503, message: 'This instance is not the leader' },
  LEASE_LOST: { status: 500, message: 'The lease was lost meanwhile' },
};

/**
 * The transport's form of an error, where the transport's package must be loaded a promise of it; the
 * error itself where it is none that a caller can act on.
 */
export function transportException(error: CoordinationError, host: ArgumentsHost): unknown {
  const answer = ANSWERS[error.code];
  if (!answer) return error;
  const { status, message, retryAfter } = answer;
  const payload = { status: 'error', code: error.code, message };
  // Not imported above: an application without such a transport need not have its package.
  switch (host.getType<string>()) {
    case 'rpc':
      return import('@nestjs/microservices').then(
        ({ RpcException }) => new RpcException({ ...payload, retryAfter }),
      );
    case 'ws':
      return import('@nestjs/websockets').then(
        ({ WsException }) => new WsException({ ...payload, retryAfter }),
      );
    case 'graphql':
      // Its servers pass on the extensions. Nest would take the code for its own, were there a statusCode.
      return Object.assign(
        new HttpException({ code: error.code, message }, status, { cause: error }),
        { extensions: { code: error.code, status, retryAfter } },
      );
    case 'http':
      if (retryAfter) setHeader(host, 'Retry-After', String(retryAfter));
  }
  const body = { statusCode: status, code: error.code, message };
  return new HttpException(body, status, { cause: error });
}

/** Express's response and Fastify's reply alike. */
function setHeader(host: ArgumentsHost, name: string, value: string): void {
  const response = host.switchToHttp().getResponse<{
    headersSent?: boolean;
    header?: (name: string, value: string) => void;
  }>();
  if (!response.headersSent) response.header?.(name, value);
}
