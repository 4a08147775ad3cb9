import {
  type ArgumentsHost,
  Catch,
  type ExceptionFilter,
  HttpException,
  HttpStatus,
  Logger,
} from '@nestjs/common';
import { from, mergeMap, type Observable } from 'rxjs';
import { CoordinationError } from '../client/errors.js';

/** The common part of Express's response and Fastify's reply. */
interface HttpResponse {
  readonly headersSent?: boolean;
  readonly sent?: boolean;
  readonly raw?: { end(): void };
  status(code: number): { send(body: unknown): void };
  end?(): void;
}

/**
 * Answers uncaught errors of this library in the same way as the decorators on handlers do: on HTTP with
 * 409 for busy, 503 with Retry-After for a timeout or without a connection, 400 for an unusable key, and so on; on RPC and
 * WebSocket with that transport's exception. For handlers that use LockService or call locked providers:
 * `{ provide: APP_FILTER, useClass: ZkExceptionFilter }`. The option `mapError` does not apply. Override `toException` for
 * other answers.
 *
 * @publicApi
 */
@Catch(CoordinationError)
export class ZkExceptionFilter implements ExceptionFilter<CoordinationError> {
  private readonly logger = new Logger(ZkExceptionFilter.name);

  catch(error: CoordinationError, host: ArgumentsHost): unknown {
    const exception = this.toException(error, host);
    switch (host.getType()) {
      case 'http':
        return this.respond(exception, host);
      case 'rpc':
        // The host does not say whether it was an event, whose sender gets no answer.
        this.logger.warn(`a message or event handler failed: ${error.message}`);
        return reply(exception, host);
      case 'ws':
        return void this.emit(exception, host);
      default:
        // GraphQL reports the value that a filter returns.
        return exception;
    }
  }

  /** Returns the transport's exception, or a promise of it. On HTTP an HttpException, and no promise. */
  protected toException(error: CoordinationError, host: ArgumentsHost): unknown {
    return transportException(error, host);
  }

  private respond(exception: unknown, host: ArgumentsHost): void {
    const known = exception instanceof HttpException;
    const response = host.switchToHttp().getResponse<HttpResponse>();
    const sent = response.headersSent ?? response.sent;
    // The client only sees that an answer ends that has begun.
    if (!known || sent) this.logger.error(exception);
    if (sent) {
      (response.raw ?? response).end?.();
      return;
    }
    const statusCode = known ? exception.getStatus() : HttpStatus.INTERNAL_SERVER_ERROR;
    const body = known ? exception.getResponse() : 'Internal server error';
    response
      .status(statusCode)
      .send(typeof body === 'string' ? { statusCode, message: body } : body);
  }

  private async emit(exception: unknown, host: ArgumentsHost): Promise<void> {
    try {
      const { BaseWsExceptionFilter } = await import('@nestjs/websockets');
      new BaseWsExceptionFilter().catch(await exception, host);
    } catch (error) {
      this.logger.error(error);
    }
  }
}

function reply(exception: unknown, host: ArgumentsHost): Observable<unknown> {
  return from(Promise.all([import('@nestjs/microservices'), exception as Promise<Error>])).pipe(
    mergeMap(([{ BaseRpcExceptionFilter }, settled]) =>
      // The filter handles any error, although its type accepts only RpcException.
      new BaseRpcExceptionFilter().catch(settled as never, host),
    ),
  );
}

/**
 * Returns the error with which a handler fails in place of a coordination error. Undefined keeps the
 * library's mapping; the error itself passes it to the application's exception filters.
 *
 * @publicApi
 */
export type ErrorMapping = (error: CoordinationError, host: ArgumentsHost) => unknown;

/** The answer to the client. The error's own message may name servers and znodes, so it is only the cause. */
interface Answer {
  readonly status: number;
  readonly message: string;
  readonly retryAfter?: number;
}

/** Without a connection. A reconnection takes some seconds. */
const UNAVAILABLE: Answer = {
  status: 503,
  message: 'The coordination service is unavailable',
  retryAfter: 5,
};

const INTERNAL: Answer = { status: 500, message: 'Internal server error' };

const ANSWERS: Readonly<Record<string, Answer>> = {
  BAD_KEY: { status: 400, message: 'A name in the request is empty, too long or not allowed' },
  BUSY: { status: 409, message: 'Busy with other requests' },
  TIMEOUT: { status: 503, message: 'Still busy with other requests, try again', retryAfter: 1 },
  WAIT_TIMEOUT: { status: 503, message: 'Timed out, try again', retryAfter: 1 },
  QUEUE_FULL: { status: 503, message: 'Overloaded, try again', retryAfter: 1 },
  CONNECTION: UNAVAILABLE,
  SESSION_EXPIRED: UNAVAILABLE,
  SHUTTING_DOWN: { status: 503, message: 'Shutting down', retryAfter: 1 },
  NOT_LEADER: { status: 503, message: 'This instance is not the leader', retryAfter: 1 },
  LEASE_LOST: { status: 500, message: 'The lease was lost while the request ran' },
  STALE_LEASE: { status: 500, message: 'The lease was lost while the request ran' },
};

/**
 * Returns an error in the form of the transport, or a promise of it if the transport's package must be
 * loaded first. Returns the error itself if a client cannot act on it, except on GraphQL.
 */
export function transportException(error: CoordinationError, host: ArgumentsHost): unknown {
  const type = host.getType<string>();
  let answer = ANSWERS[error.code];
  if (!answer && type === 'graphql') {
    // Nest hides the message of an unknown error on the other transports. A GraphQL server shows it to the client.
    answer = INTERNAL;
    new Logger(ZkExceptionFilter.name).error(error);
  }
  if (!answer) return error;
  const { status, message, retryAfter } = answer;
  const payload = { status: 'error', code: error.code, message };
  // Dynamic imports, because the packages are optional.
  switch (type) {
    case 'rpc':
      return import('@nestjs/microservices').then(
        ({ RpcException }) => new RpcException({ ...payload, retryAfter }),
      );
    case 'ws':
      return import('@nestjs/websockets').then(
        ({ WsException }) => new WsException({ ...payload, retryAfter }),
      );
    case 'graphql':
      // GraphQL servers pass the extensions on. Without a statusCode in the body, because Nest would derive
      // its own code from it.
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

/** Works with Express's response and Fastify's reply. */
function setHeader(host: ArgumentsHost, name: string, value: string): void {
  const response = host.switchToHttp().getResponse<{
    headersSent?: boolean;
    header?: (name: string, value: string) => void;
  }>();
  if (!response.headersSent) response.header?.(name, value);
}
