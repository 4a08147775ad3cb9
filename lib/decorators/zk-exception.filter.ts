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
import { transportException } from './error-mapping.js';

/** What Express's response and Fastify's reply have in common. */
interface HttpResponse {
  readonly headersSent?: boolean;
  readonly sent?: boolean;
  readonly raw?: { end(): void };
  status(code: number): { send(body: unknown): void };
  end?(): void;
}

/**
 * Answers those of the library's errors that nobody caught, as the decorators' interceptors answer
 * theirs: busy 409, timed out 503 with Retry-After, no connection 503 and so on, for RPC and WebSocket
 * their kind of exception. For handlers that use LockService or call locked providers:
 * `{ provide: APP_FILTER, useClass: ZkExceptionFilter }`. Override `toException` for other answers.
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
        return reply(exception, host);
      case 'ws':
        return void this.emit(exception, host);
      default:
        // GraphQL reports what its filters return.
        return exception;
    }
  }

  /** What the transport's own filter is given, or a promise of it. An HttpException on HTTP. */
  protected toException(error: CoordinationError, host: ArgumentsHost): unknown {
    return transportException(error, host);
  }

  private respond(exception: unknown, host: ArgumentsHost): void {
    const known = exception instanceof HttpException;
    if (!known) this.logger.error(exception);
    const response = host.switchToHttp().getResponse<HttpResponse>();
    if (response.headersSent ?? response.sent) {
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
      // Its type parameter is what it is given, its own type says RpcException at most.
      new BaseRpcExceptionFilter().catch(settled as never, host),
    ),
  );
}
